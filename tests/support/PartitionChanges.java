import java.util.*;
import java.util.stream.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.*;
import org.apache.kafka.server.common.*;

/** Prints what PartitionChangeBuilder makes of random partitions and changes: one JSON object a line. */
public class PartitionChanges {
    static final Random random = new Random(966);
    static final Uuid[] DIRECTORIES = new Uuid[12];

    static int[] some(int[] of, int least) {
        List<Integer> found = new ArrayList<>();
        for (int each : of) if (random.nextInt(3) > 0) found.add(each);
        for (int i = 0; found.size() < least && i < of.length; i++) if (!found.contains(of[i])) found.add(of[i]);
        Collections.shuffle(found, random);
        return found.stream().mapToInt(Integer::intValue).toArray();
    }
    static int[] without(int[] of, int[] gone) {
        return Arrays.stream(of).filter(each -> Arrays.stream(gone).noneMatch(other -> other == each)).toArray();
    }
    static List<Integer> list(int[] of) { return Arrays.stream(of).boxed().collect(Collectors.toList()); }
    static String text(Object value) {
        if (value instanceof int[] numbers) return Arrays.toString(numbers).replace(" ", "");
        if (value instanceof List<?> items) return items.stream().map(PartitionChanges::text).collect(Collectors.joining(",", "[", "]"));
        if (value instanceof Uuid id) return id.getMostSignificantBits() == 0 ? "" + id.getLeastSignificantBits() : "" + id.getMostSignificantBits();
        if (value instanceof Uuid[] ids) return text(Arrays.asList(ids));
        return value instanceof String ? "\"" + value + "\"" : String.valueOf(value);
    }
    static String object(Object... pairs) {
        StringJoiner joined = new StringJoiner(",", "{", "}");
        for (int i = 0; i < pairs.length; i += 2) if (pairs[i + 1] != null) joined.add("\"" + pairs[i] + "\":" + text(pairs[i + 1]));
        return joined.toString();
    }
    static class Raw { final String text; Raw(String text) { this.text = text; } public String toString() { return text; } }

    static String one() {
        int brokers = 3 + random.nextInt(5);
        int[] all = IntStream.range(random.nextInt(2), brokers).toArray();
        if (random.nextInt(4) == 0) for (int i = 0; i < all.length; i++) all[i] = all[i] * 7 + (i % 3) * 100;
        int[] replicas = some(all, 1);
        int[] isr = random.nextInt(5) == 0 ? new int[0] : some(replicas, 1);
        int[] elr = random.nextInt(2) == 0 ? new int[0] : some(without(replicas, isr), 0);
        boolean hasElr = random.nextInt(3) > 0;
        int leader = isr.length == 0 || random.nextInt(8) == 0 ? -1 : isr[random.nextInt(isr.length)];
        int[] known = leader >= 0 && random.nextInt(4) > 0 ? new int[0] : some(replicas, 0);
        if (leader < 0 && random.nextInt(2) == 0) known = new int[] {replicas[random.nextInt(replicas.length)]};
        int[] removing = new int[0], adding = new int[0];
        if (random.nextInt(3) == 0 && replicas.length > 1) {
            adding = some(replicas, 0);
            removing = random.nextBoolean() ? new int[0] : some(without(replicas, adding), 0);
        }
        Uuid[] directories = new Uuid[replicas.length];
        for (int i = 0; i < replicas.length; i++) directories[i] = DIRECTORIES[random.nextInt(DIRECTORIES.length)];
        LeaderRecoveryState recovery = random.nextInt(5) == 0 ? LeaderRecoveryState.RECOVERING : LeaderRecoveryState.RECOVERED;
        int[] alive = some(all, 0);
        MetadataVersion version = new MetadataVersion[] {MetadataVersion.LATEST_PRODUCTION, MetadataVersion.LATEST_PRODUCTION,
            MetadataVersion.IBP_3_5_IV2, MetadataVersion.IBP_3_6_IV0, MetadataVersion.IBP_3_7_IV2}[random.nextInt(5)];
        if (!version.isElrSupported()) hasElr = false;
        if (!version.isElrSupported()) elr = known = new int[0];
        PartitionRegistration partition = new PartitionRegistration.Builder().setReplicas(replicas).setDirectories(directories)
            .setIsr(isr).setElr(elr).setLastKnownElr(known).setRemovingReplicas(removing).setAddingReplicas(adding)
            .setLeader(leader).setLeaderRecoveryState(recovery).setLeaderEpoch(5).setPartitionEpoch(9).build();
        int minIsr = 1 + random.nextInt(replicas.length);
        PartitionChangeBuilder builder = new PartitionChangeBuilder(partition, new Uuid(1, 1), 0,
            id -> Arrays.stream(alive).anyMatch(each -> each == id), version, minIsr, hasElr);
        builder.setDefaultDirProvider(id -> new Uuid(1000 + id, 1));
        PartitionChangeBuilder.Election election = PartitionChangeBuilder.Election.values()[random.nextInt(3)];
        builder.setElection(election);
        int[] targetIsr = null, targetReplicas = null, targetRemoving = null, targetAdding = null, unclean = null;
        Integer targetRecovery = null;
        switch (random.nextInt(6)) {
            case 0: case 1: targetIsr = some(replicas, random.nextInt(4) == 0 ? 0 : 1); break;
            case 2:
                int[] goal = some(all, 1);
                targetAdding = without(goal, replicas);
                targetRemoving = without(replicas, goal);
                Arrays.sort(targetRemoving);
                targetReplicas = IntStream.concat(Arrays.stream(goal), Arrays.stream(targetRemoving)).toArray();
                break;
            case 3:
                unclean = new int[] {replicas[random.nextInt(replicas.length)]};
                targetIsr = without(isr, unclean);
                break;
            case 4: targetRecovery = 0; break;
            default: break;
        }
        if (targetIsr != null) builder.setTargetIsr(list(targetIsr));
        if (targetReplicas != null) builder.setTargetReplicas(list(targetReplicas)).setTargetAdding(list(targetAdding)).setTargetRemoving(list(targetRemoving));
        if (unclean != null) builder.setUncleanShutdownReplicas(list(unclean));
        if (targetRecovery != null) builder.setTargetLeaderRecoveryState(LeaderRecoveryState.RECOVERED);
        Integer moved = null;
        if (random.nextInt(8) == 0) {
            moved = replicas[0];
            builder.setDirectory(moved, new Uuid(77, 1));
        }
        Optional<ApiMessageAndVersion> built = builder.build();
        String outcome = "null";
        if (built.isPresent()) {
            PartitionChangeRecord record = (PartitionChangeRecord) built.get().message();
            outcome = object("version", (int) built.get().version(), "isr", record.isr(),
                "leader", record.leader() == -2 ? null : record.leader(), "replicas", record.replicas(),
                "removing_replicas", record.removingReplicas(), "adding_replicas", record.addingReplicas(),
                "leader_recovery_state", record.leaderRecoveryState() == -1 ? null : (int) record.leaderRecoveryState(),
                "directories", record.directories(), "eligible_leader_replicas", record.eligibleLeaderReplicas(),
                "last_known_elr", record.lastKnownElr());
        }
        return object("partition", new Raw(object("replicas", replicas, "isr", isr, "leader", leader, "elr", elr, "last_known_elr", known,
                "removing", removing, "adding", adding, "directories", directories, "recovery", (int) recovery.value())),
            "level", (int) version.featureLevel(), "min_isr", minIsr, "elr", hasElr, "alive", alive,
            "election", election.name().toLowerCase(), "target_isr", targetIsr, "target_replicas", targetReplicas,
            "target_removing", targetRemoving, "target_adding", targetAdding, "unclean", unclean,
            "target_recovery", targetRecovery, "moved", moved, "record", new Raw(outcome));
    }
    public static void main(String[] args) {
        for (int i = 0; i < DIRECTORIES.length; i++) DIRECTORIES[i] = i < 3 ? new Uuid(0, i) : new Uuid(i, 1);
        for (int i = 0; i < Integer.parseInt(args[0]); i++) System.out.println(one());
    }
}
