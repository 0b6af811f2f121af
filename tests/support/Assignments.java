import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Reads cases for Apache Kafka's assignors, one JSON object a line, and prints what each of them answers. */
public class Assignments {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode test) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        ConsumerPartitionAssignor assignor = (ConsumerPartitionAssignor)
            Class.forName("org.apache.kafka.clients.consumer." + test.get("assignor").asText())
                .getDeclaredConstructor().newInstance();
        if (test.has("remember")) {
            assignor.onAssignment(new Assignment(partitions(test.get("remember"))),
                new ConsumerGroupMetadata("group", test.get("generation").asInt(), "member", Optional.empty()));
            ByteBuffer data = assignor.subscriptionUserData(Set.of());
            byte[] bytes = new byte[data.remaining()];
            data.get(bytes);
            return answer.put("user_data", Base64.getEncoder().encodeToString(bytes));
        }
        try {
            Map<String, Assignment> result = assignor
                .assign(cluster(test.get("topics")), new GroupSubscription(subscriptions(test.get("members"))))
                .groupAssignment();
            for (JsonNode member : test.get("members")) {
                ArrayNode list = answer.putArray(member.get("id").asText());
                for (TopicPartition part : result.get(member.get("id").asText()).partitions()) {
                    list.addArray().add(part.topic()).add(part.partition());
                }
            }
        } catch (RuntimeException error) {
            answer.removeAll();
            answer.put("error", error.toString());
        }
        return answer;
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> infos = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (int i = 0; i < topic.getValue().size(); i++) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : topic.getValue().get(i)) {
                    String name = rack.isNull() ? null : rack.asText();
                    replicas.add(nodes.computeIfAbsent(String.valueOf(name),
                        key -> new Node(nodes.size() + 1, "host", 9092, name)));
                }
                Node[] array = replicas.toArray(new Node[0]);
                infos.add(new PartitionInfo(topic.getKey(), i, array.length == 0 ? null : array[0], array, array));
            }
        });
        return new Cluster("cluster", nodes.values(), infos, Set.of(), Set.of());
    }

    private static Map<String, Subscription> subscriptions(JsonNode members) {
        Map<String, Subscription> result = new HashMap<>();
        for (JsonNode member : members) {
            List<String> topics = new ArrayList<>();
            member.get("topics").forEach(topic -> topics.add(topic.asText()));
            ByteBuffer data = member.get("user_data").isNull() ? null
                : ByteBuffer.wrap(Base64.getDecoder().decode(member.get("user_data").asText()));
            Subscription said = new Subscription(topics, data, partitions(member.get("owned")),
                member.get("generation").asInt(), Optional.ofNullable(text(member.get("rack"))));
            said.setGroupInstanceId(Optional.ofNullable(text(member.get("instance"))));
            result.put(member.get("id").asText(), said);
        }
        return result;
    }

    private static List<TopicPartition> partitions(JsonNode list) {
        List<TopicPartition> result = new ArrayList<>();
        list.forEach(part -> result.add(new TopicPartition(part.get(0).asText(), part.get(1).asInt())));
        return result;
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }
}
