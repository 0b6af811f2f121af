import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetryContext;
import org.apache.kafka.server.telemetry.ClientTelemetryExporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporterProvider;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;

/** A metrics reporter of a broker that takes client metrics (KIP-714): it appends each push to the file of the setting
 * telemetry.file, as client id, instance id, terminating, content type and the decompressed bytes in base64. */
public class TelemetryPlugin implements MetricsReporter, ClientTelemetryExporterProvider {
    private Path file;

    @Override
    public void configure(Map<String, ?> configs) {
        file = Path.of(String.valueOf(configs.get("telemetry.file")));
    }

    @Override
    public ClientTelemetryExporter clientTelemetryExporter() {
        return this::append;
    }

    private synchronized void append(ClientTelemetryContext context, ClientTelemetryPayload payload) {
        byte[] data = new byte[payload.data().remaining()];
        payload.data().duplicate().get(data);
        String line = String.join("\t", context.authorizableRequestContext().clientId(), payload.clientInstanceId().toString(),
            String.valueOf(payload.isTerminating()), payload.contentType(), Base64.getEncoder().encodeToString(data));
        try {
            Files.write(file, List.of(line), StandardCharsets.UTF_8, StandardOpenOption.CREATE,
                StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) { }

    @Override
    public void metricChange(KafkaMetric metric) { }

    @Override
    public void metricRemoval(KafkaMetric metric) { }

    @Override
    public void close() { }
}
