import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.coordinator.group.streams.assignor.*;

/** Prints what StickyTaskAssignor makes of random streams groups, one JSON object a line; each round starts from the one before.
 * Arguments: the number of groups, and bounds: seed, partitions, members that join in a round, processes, standbys. */
public class StreamsTasks {
    public static void main(String[] args) {
        int[] bounds = {1071, 9, 3, 4, 3};
        for (int i = 1; i < args.length; i++) bounds[i - 1] = Integer.parseInt(args[i]);
        Random random = new Random(bounds[0]);
        for (int story = 0; story < Integer.parseInt(args[0]); story++) {
            TreeMap<String, int[]> parts = new TreeMap<>();
            for (int i = 0; i <= random.nextInt(4); i++) parts.put(String.valueOf(i), new int[] {1 + random.nextInt(bounds[1]), random.nextInt(2)});
            TopologyDescriber topology = new TopologyDescriber() {
                public List<String> subtopologies() { return new ArrayList<>(parts.keySet()); }
                public int maxNumInputPartitions(String id) { return parts.get(id)[0]; }
                public boolean isStateful(String id) { return parts.get(id)[1] == 1; }
            };
            int standbys = random.nextInt(bounds[4]);
            Map<String, String> members = new TreeMap<>();
            Map<String, MemberAssignment> before = new HashMap<>();
            List<String> rounds = new ArrayList<>();
            for (int round = 0; round < 5; round++) {
                for (int i = 0; i <= random.nextInt(bounds[2]); i++) {
                    String id = "member-" + random.nextInt(1000);
                    members.put(id, "process-" + random.nextInt(bounds[3]));
                }
                if (members.size() > 1 && random.nextInt(3) == 0) members.remove(new ArrayList<>(members.keySet()).get(random.nextInt(members.size())));
                Map<String, AssignmentMemberSpec> specs = new HashMap<>();
                members.forEach((id, process) -> {
                    MemberAssignment had = before.getOrDefault(id, MemberAssignment.empty());
                    specs.put(id, new AssignmentMemberSpec(Optional.empty(), Optional.empty(), had.activeTasks(), had.standbyTasks(), Map.of(), process, Map.of(), Map.of(), Map.of()));
                });
                GroupAssignment result = new StickyTaskAssignor().assign(new GroupSpecImpl(specs, Map.of("num.standby.replicas", "" + standbys)), topology);
                before.clear();
                before.putAll(result.members());
                rounds.add("{\"members\":" + json(members) + ",\"result\":{" + new TreeMap<>(result.members()).entrySet().stream().map(e -> "\"" + e.getKey() + "\":["
                    + tasks(e.getValue().activeTasks()) + "," + tasks(e.getValue().standbyTasks()) + "]").collect(Collectors.joining(",")) + "}}");
            }
            System.out.println("{\"standbys\":" + standbys + ",\"parts\":{" + parts.entrySet().stream().map(e -> "\"" + e.getKey() + "\":["
                + e.getValue()[0] + "," + (e.getValue()[1] == 1) + "]").collect(Collectors.joining(",")) + "},\"rounds\":" + rounds + "}");
        }
    }

    private static String json(Map<String, String> map) {
        return map.entrySet().stream().map(e -> "\"" + e.getKey() + "\":\"" + e.getValue() + "\"").collect(Collectors.joining(",", "{", "}"));
    }

    private static String tasks(Map<String, Set<Integer>> tasks) {
        return new TreeMap<>(tasks).entrySet().stream().map(e -> "\"" + e.getKey() + "\":" + new TreeSet<>(e.getValue())).collect(Collectors.joining(",", "{", "}"));
    }
}
