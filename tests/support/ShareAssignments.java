import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.*;
/** Prints what SimpleAssignor makes of groups: lines "id:partitions,...|member=0;1,..." with indexes of topics, "new" begins another group.
 * The partitions of a topic are a number of them, or those that are initialized, as in "1+4". */
public class ShareAssignments {
  public static void main(String[] a) throws Exception {
    Scanner in = new Scanner(System.in);
    Map<String, Map<Uuid, Set<Integer>>> target = new HashMap<>();
    while (in.hasNextLine()) {
      String line = in.nextLine();
      if (line.equals("new")) { target = new HashMap<>(); System.out.println("new"); continue; }
      String[] parts = line.split("\\|");
      LinkedHashMap<Uuid,Integer> topics = new LinkedHashMap<>();
      Map<Uuid, Set<Integer>> initialized = new HashMap<>();
      for (String t : parts[0].split(",")) {
        Uuid id = Uuid.fromString(t.split(":")[0]);
        Set<Integer> numbers = new TreeSet<>();
        if (t.contains("+")) for (String n : t.split(":")[1].split("\\+")) numbers.add(Integer.parseInt(n));
        else for (int n = 0; n < Integer.parseInt(t.split(":")[1]); n++) numbers.add(n);
        topics.put(id, Collections.max(numbers) + 1);
        initialized.put(id, numbers);
      }
      List<Uuid> ids = new ArrayList<>(topics.keySet());
      Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
      Set<Set<Uuid>> kinds = new HashSet<>();
      for (String m : parts[1].split(",")) {
        Set<Uuid> sub = new HashSet<>();
        for (String i : m.split("=")[1].split(";")) sub.add(ids.get(Integer.parseInt(i)));
        kinds.add(sub);
        members.put(m.split("=")[0], new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.empty(), sub, new Assignment(target.getOrDefault(m.split("=")[0], Map.of()))));
      }
      GroupSpecImpl spec = new GroupSpecImpl(members, kinds.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, Map.of(), Optional.of(initialized));
      GroupAssignment r = new SimpleAssignor().assign(spec, new SubscribedTopicDescriber() {
        public int numPartitions(Uuid t) { return topics.getOrDefault(t, -1); }
        public Set<String> racksForPartition(Uuid t, int p) { return Set.of(); }
      });
      target = new HashMap<>();
      StringBuilder out = new StringBuilder();
      for (String m : new TreeSet<>(members.keySet())) {
        Map<Uuid, Set<Integer>> parts2 = r.members().containsKey(m) ? r.members().get(m).partitions() : Map.of();
        Map<Uuid, Set<Integer>> copy = new HashMap<>();
        parts2.forEach((k, v) -> copy.put(k, new HashSet<>(v)));
        target.put(m, copy);
        out.append(m).append("=");
        for (int i = 0; i < ids.size(); i++) for (int p : new TreeSet<>(parts2.getOrDefault(ids.get(i), Set.of()))) out.append(i).append(".").append(p).append(";");
        out.append(",");
      }
      System.out.println(out);
    }
  }
}
