import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes the time to a topic and reads the topic in a group with Apache Kafka's clients, whatever happens to the
 * brokers. Tells line by line: "produced (ms)" for each acknowledged record, "consumed (ms)" for each that was read.
 * Arguments: brokers, topic, group.
 */
public class SteadyClient {
    private static final long PAUSE_MS = 100;

    private static synchronized void tell(String what, String value) {
        System.out.println(what + " " + value);
        System.out.flush();
    }

    private static void produce(String brokers, String topic) throws InterruptedException {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", brokers);
        var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        while (true) {
            String now = Long.toString(System.currentTimeMillis());
            producer.send(new ProducerRecord<>(topic, now), (metadata, error) -> {
                if (error == null) tell("produced", now);
                else System.err.println("produce: " + error);
            });
            Thread.sleep(PAUSE_MS);
        }
    }

    private static void consume(String what, String brokers, String topic, Map<String, String> more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", brokers);
        settings.putAll(more);
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        while (true) consumer.poll(Duration.ofSeconds(1)).forEach(record -> tell(what, record.value()));
    }

    public static void main(String[] args) throws InterruptedException {
        var classic = Map.of("group.id", args[2]);
        var modern = Map.of("group.id", args[2] + "-848", "group.protocol", "consumer");
        new Thread(() -> consume("consumed", args[0], args[1], classic)).start();
        new Thread(() -> consume("consumed-848", args[0], args[1], modern)).start();
        produce(args[0], args[1]);
    }
}
