import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Prints the metrics of Apache Kafka's clients after they sent and read a record: client, group, name, tag keys. */
public class ClientMetrics {
    /** Longer than the first push interval of the recording, so that every client has its subscription. */
    private static final long PUSH_MS = 1500;

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", args[0]);
        settings.put("client.id", "app");
        settings.put("enable.metrics.push", "true");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "value")).get();
            Thread.sleep(PUSH_MS);
            print("producer", producer.metrics());
        }
        try (Admin admin = Admin.create(settings)) {
            admin.describeCluster().nodes().get();
            Thread.sleep(PUSH_MS);
            print("admin", admin.metrics());
        }
        for (String protocol : List.of("classic", "consumer")) {
            Map<String, Object> own = new HashMap<>(settings);
            own.put("group.id", topic + "-" + protocol);
            own.put("group.protocol", protocol);
            own.put("auto.offset.reset", "earliest");
            try (KafkaConsumer<String, String> consumer =
                    new KafkaConsumer<>(own, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of(topic));
                while (consumer.poll(Duration.ofMillis(200)).isEmpty()) { }
                consumer.commitSync();
                print("consumer-" + protocol, consumer.metrics());
            }
        }
        Map<String, Object> own = new HashMap<>(settings);
        own.put("group.id", topic + "-share");
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(own, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            consumer.poll(Duration.ofMillis(2000));
            consumer.commitSync();
            print("share-consumer", consumer.metrics());
        }
    }

    private static void print(String client, Map<MetricName, ? extends Metric> metrics) {
        TreeSet<String> lines = new TreeSet<>();
        for (MetricName name : metrics.keySet()) {
            lines.add(client + "\t" + name.group() + "\t" + name.name() + "\t"
                + String.join(",", new TreeSet<>(name.tags().keySet())));
        }
        lines.forEach(System.out::println);
    }
}
