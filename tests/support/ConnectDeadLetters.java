import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.*;
import org.apache.kafka.connect.runtime.errors.*;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** A sink that fails on every record of a topic: Connect's DeadLetterQueueReporter writes it to a dead-letter topic. Runs until it is killed. */
public class ConnectDeadLetters {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], topic = args[1], dlq = args[2];
        Map<String, String> worker = Map.of("bootstrap.servers", bootstrap, "key.converter", JsonConverter.class.getName(),
            "value.converter", JsonConverter.class.getName(), "offset.storage.file.filename", "unused", "plugin.discovery", "service_load");
        ConnectorTaskId task = new ConnectorTaskId("sink", 0);
        SinkConnectorConfig sink = new SinkConnectorConfig(new Plugins(worker), Map.of("name", "sink", "connector.class", "FailingSink",
            "topics", topic, "errors.tolerance", "all", "errors.deadletterqueue.topic.name", dlq,
            "errors.deadletterqueue.topic.replication.factor", "1", "errors.deadletterqueue.context.headers.enable", "true"));
        ErrorHandlingMetrics metrics = new ErrorHandlingMetrics(task, new ConnectMetrics("worker", new StandaloneConfig(worker), Time.SYSTEM, "cluster"));
        DeadLetterQueueReporter reporter = DeadLetterQueueReporter.createAndSetup(Map.of("bootstrap.servers", bootstrap), task, sink,
            Map.of("bootstrap.servers", bootstrap, "key.serializer", ByteArraySerializer.class, "value.serializer", ByteArraySerializer.class), metrics);
        Map<String, Object> reading = Map.of("bootstrap.servers", bootstrap, "group.id", "connect-sink", "auto.offset.reset", "earliest",
            "isolation.level", "read_committed", "key.deserializer", ByteArrayDeserializer.class, "value.deserializer", ByteArrayDeserializer.class);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading);
        consumer.subscribe(List.of(topic));
        while (true) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                ProcessingContext<ConsumerRecord<byte[], byte[]>> context = new ProcessingContext<>(record);
                context.currentContext(Stage.VALUE_CONVERTER, JsonConverter.class);
                context.error(new DataException("Converting byte[] to Kafka Connect data failed"));
                reporter.report(context).get();
            }
        }
    }
}
