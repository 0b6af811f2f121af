import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.MessageFormatter;

/** Reads records, one JSON object a line, and prints what Apache Kafka's message formatters make of them. */
public class Formatters {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode record = JSON.readTree(line);
            MessageFormatter formatter = (MessageFormatter)
                Class.forName(record.get("formatter").asText()).getDeclaredConstructor().newInstance();
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            String answer;
            try {
                formatter.writeTo(new ConsumerRecord<>("topic", 0, record.get("offset").asLong(),
                    bytes(record.get("key")), bytes(record.get("value"))), new PrintStream(out));
                answer = out.toString(StandardCharsets.UTF_8);
            } catch (RuntimeException error) {
                answer = "error: " + error.getMessage();
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }
}
