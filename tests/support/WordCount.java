import java.util.*;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.Stores;

/** Counts the words of `lines` into `counts`, exactly once, by a repartition topic and a store with a changelog. Runs until it is killed. */
public class WordCount {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        for (String setting : ("bootstrap.servers=" + args[0] + ";application.id=" + args[1] + ";state.dir=" + args[2] + ";client.id=" + args[3]
            + ";application.server=" + args[4] + ";group.protocol=" + args[5] + ";processing.guarantee=exactly_once_v2;commit.interval.ms=100"
            + ";statestore.cache.max.bytes=0;auto.offset.reset=earliest;max.poll.interval.ms=20000;topology.optimization=all").split(";")) {
            settings.put(setting.split("=", 2)[0], setting.split("=", 2)[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String())).flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("words")).withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().mapValues(count -> count.toString()).to("counts", Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
        streams.setStateListener((now, before) -> System.out.println(now));
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        new CountDownLatch(1).await();
    }
}
