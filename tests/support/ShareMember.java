import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Share consumers of Apache Kafka, driven line by line: each line of standard input is a call, each line of output its result. */
public class ShareMember {
    private static final Map<String, ConsumerRecord<String, String>> delivered = new HashMap<>();
    private static final Map<String, ConsumerRecords<String, String>> polled = new HashMap<>();

    public static void main(String[] args) throws Exception {
        Map<String, KafkaShareConsumer<String, String>> consumers = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String result;
            try {
                result = call(consumers, line.trim().split(" "));
            } catch (Exception error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                result = "error " + error.getClass().getSimpleName() + ": " + error.getMessage()
                    + (cause == error ? "" : " <- " + cause.getMessage());
            }
            System.out.println(result);
            System.out.flush();
        }
        for (KafkaShareConsumer<String, String> consumer : consumers.values()) consumer.close(Duration.ofMillis(1000));
    }

    private static String call(Map<String, KafkaShareConsumer<String, String>> consumers, String[] words) throws Exception {
        String name = words[1];
        if (words[0].equals("wait")) {
            Thread.sleep(Long.parseLong(name));
            return "waited";
        }
        if (words[0].equals("open")) {
            Map<String, Object> settings = new HashMap<>();
            for (int i = 2; i < words.length; i++) settings.put(words[i].split("=", 2)[0], words[i].split("=", 2)[1]);
            consumers.put(name, new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer()));
            return "opened";
        }
        KafkaShareConsumer<String, String> consumer = consumers.get(name);
        switch (words[0]) {
            case "subscribe":
                consumer.subscribe(List.of(words).subList(2, words.length));
                return "subscribed";
            case "unsubscribe":
                consumer.unsubscribe();
                return "unsubscribed";
            case "callback":
                consumer.setAcknowledgementCommitCallback((offsets, error) -> {
                    TreeMap<String, Object> sorted = new TreeMap<>();
                    offsets.forEach((partition, set) -> sorted.put(partition.topicPartition().toString(), new TreeSet<>(set)));
                    System.out.println("callback " + sorted + " " + (error == null ? "ok" : error.getClass().getSimpleName()));
                });
                return "registered";
            case "poll":
                return shown(name, poll(consumer, Long.parseLong(words[2])));
            case "poll-once":
                return shown(name, consumer.poll(Duration.ofMillis(Long.parseLong(words[2]))));
            case "ack":
                consumer.acknowledge(delivered.get(name + " " + words[2] + "-" + words[3] + ":" + words[4]), AcknowledgeType.valueOf(words[5]));
                return "acknowledged";
            case "ack-offset":
                consumer.acknowledge(words[2], Integer.parseInt(words[3]), Long.parseLong(words[4]), AcknowledgeType.valueOf(words[5]));
                return "acknowledged";
            case "ack-all":
                for (ConsumerRecord<String, String> record : polled.get(name)) consumer.acknowledge(record, AcknowledgeType.valueOf(words[2]));
                return "acknowledged";
            case "commit-sync":
                TreeMap<String, String> results = new TreeMap<>();
                consumer.commitSync().forEach((partition, error) -> results.put(partition.topicPartition().toString(),
                    error.map(e -> e.getClass().getSimpleName()).orElse("ok")));
                return "committed " + results;
            case "commit-async":
                consumer.commitAsync();
                return "sent";
            case "lock":
                return "lock " + consumer.acquisitionLockTimeoutMs().map(String::valueOf).orElse("none");
            case "subscription":
                return "subscription " + new TreeSet<>(consumer.subscription());
            case "wakeup":
                consumer.wakeup();
                return "woken";
            case "close":
                consumer.close();
                consumers.remove(name);
                return "closed";
            default:
                return "error unknown call " + words[0];
        }
    }

    /** Poll until records arrive or the time is over. */
    private static ConsumerRecords<String, String> poll(KafkaShareConsumer<String, String> consumer, long timeoutMs) {
        long end = System.currentTimeMillis() + timeoutMs;
        while (true) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(Math.max(0, end - System.currentTimeMillis())));
            if (!records.isEmpty() || System.currentTimeMillis() >= end) return records;
        }
    }

    private static String shown(String name, ConsumerRecords<String, String> records) {
        List<String> texts = new ArrayList<>();
        polled.put(name, records);
        for (ConsumerRecord<String, String> record : records) {
            delivered.put(name + " " + record.topic() + "-" + record.partition() + ":" + record.offset(), record);
            texts.add(record.topic() + "-" + record.partition() + ":" + record.offset() + "x" + record.deliveryCount().map(String::valueOf).orElse("?"));
        }
        return "records " + texts;
    }
}
