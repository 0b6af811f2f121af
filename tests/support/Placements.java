import java.util.*;
import org.apache.kafka.metadata.placement.*;
import org.apache.kafka.common.Uuid;

/** Prints what StripedReplicaPlacer decides: one JSON object a line. */
public class Placements {
    record Case(String name, long seed, List<UsableBroker> brokers, int partitions, int factor) {}
    static List<UsableBroker> brokers(String... specs) {
        List<UsableBroker> found = new ArrayList<>();
        for (String spec : specs) {
            String[] parts = spec.split("/", -1);
            Optional<String> rack = parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]);
            found.add(new UsableBroker(Integer.parseInt(parts[0]), rack, parts.length > 2));
        }
        return found;
    }
    public static void main(String[] args) {
        List<Case> cases = new ArrayList<>();
        for (long seed : new long[] {0, 1, 42, -7, 1700000000000L}) {
            cases.add(new Case("no racks", seed, brokers("1/", "2/", "3/"), 8, 2));
            cases.add(new Case("five brokers", seed, brokers("5/", "3/", "1/", "2/", "4/"), 17, 3));
            cases.add(new Case("one broker", seed, brokers("7/"), 4, 1));
            cases.add(new Case("three racks", seed, brokers("1/a", "2/a", "3/b", "4/b", "5/c", "6/c"), 14, 3));
            cases.add(new Case("uneven racks", seed, brokers("1/rack-one", "2/rack-one", "3/rack-one", "4/z", "5/\u00e9", "6/\ud83d\ude00"), 13, 4));
            cases.add(new Case("more replicas than racks", seed, brokers("1/a", "2/a", "3/b", "4/b"), 9, 4));
            cases.add(new Case("fenced", seed, brokers("1/a", "2/a/f", "3/b", "4/b/f", "5/c/f"), 9, 4));
            List<String> many = new ArrayList<>();
            for (int id = 0; id < 28; id++) many.add(id + "/rack" + id % 14);
            cases.add(new Case("fourteen racks", seed, brokers(many.toArray(new String[0])), 40, 3));
        }
        for (Case one : cases) {
            TopicAssignment placed = new StripedReplicaPlacer(new Random(one.seed())).place(
                new PlacementSpec(0, one.partitions(), (short) one.factor()), new ClusterDescriber() {
                    public Iterator<UsableBroker> usableBrokers() { return one.brokers().iterator(); }
                    public Uuid defaultDir(int broker) { return Uuid.randomUuid(); }
                });
            StringBuilder text = new StringBuilder();
            text.append("{\"name\":\"").append(one.name()).append("\",\"seed\":").append(one.seed()).append(",\"brokers\":[");
            for (int i = 0; i < one.brokers().size(); i++) {
                UsableBroker b = one.brokers().get(i);
                text.append(i == 0 ? "" : ",").append("[").append(b.id()).append(",")
                    .append(b.rack().map(r -> "\"" + r + "\"").orElse("null")).append(",").append(b.fenced()).append("]");
            }
            text.append("],\"factor\":").append(one.factor()).append(",\"replicas\":[");
            for (int i = 0; i < placed.assignments().size(); i++)
                text.append(i == 0 ? "" : ",").append(placed.assignments().get(i).replicas().toString().replace(" ", ""));
            System.out.println(text.append("]}"));
        }
    }
}
