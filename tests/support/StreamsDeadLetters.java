import java.util.*;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.errors.*;
import org.apache.kafka.streams.kstream.*;

/** A topology that fails on every record of `orders` and sends it to the dead-letter topic `streams.dlq` (KIP-1034). Runs until it is killed. */
public class StreamsDeadLetters {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", args[0], "application.id", "streams-" + args[1], "auto.offset.reset", "earliest",
            "errors.dead.letter.queue.topic.name", args[2], "state.dir", args[3], "commit.interval.ms", "100",
            "processing.exception.handler", LogAndContinueProcessingExceptionHandler.class,
            "default.key.serde", Serdes.ByteArraySerde.class, "default.value.serde", Serdes.ByteArraySerde.class));
        StreamsBuilder builder = new StreamsBuilder();
        builder.<byte[], byte[]>stream(args[1]).mapValues(value -> {
            if (true) throw new IllegalStateException("no such customer");
            return value;
        }).to("nowhere");
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        new CountDownLatch(1).await();
    }
}
