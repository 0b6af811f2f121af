"""Transactions against a real Apache Kafka: 1 M records of 100 bytes in 1,000 transactions.

`kt console-producer --transaction-records 1000`, with everything from its start to its end, against a Java producer
with its default settings that does the same; of the Java program only the time between the first begin and the last
commit counts, which leaves out its start. The figure is the ratio of the medians (above 1: ours is faster).
"""

from __future__ import annotations

import pathlib
import shutil
import statistics
import subprocess

from benchmarks import measure, peers
from tests.support import apache_kafka

RECORDS = 1_000_000
TRANSACTIONS = 1_000
ROUNDS = 3

PROGRAM = """
import java.util.Properties;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.ByteArraySerializer;
public class Transactions {
  public static void main(String[] args) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", args[0]);
    settings.put("transactional.id", args[2]);
    int transactions = Integer.parseInt(args[3]), each = Integer.parseInt(args[4]);
    byte[] value = new byte[100];
    ByteArraySerializer bytes = new ByteArraySerializer();
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
      producer.initTransactions();
      long started = System.nanoTime();
      for (int i = 0; i < transactions; i++) {
        producer.beginTransaction();
        for (int j = 0; j < each; j++) producer.send(new ProducerRecord<>(args[1], value));
        producer.commitTransaction();
      }
      System.out.println((System.nanoTime() - started) / 1e9);
    }
  }
}
"""


def main() -> None:
    """Prints the ratio."""
    with peers.scratch() as directory, peers.real_broker(directory) as bootstrap:
        peers.create_topic(bootstrap, "transactions")
        classes = compile_program(directory)
        lines = peers.lines_file(directory, RECORDS)
        ours, java = [], []
        for turn in range(ROUNDS + 1):
            ours.append(our_seconds(bootstrap, lines))
            java.append(java_seconds(bootstrap, classes, f"java-{turn}"))
    our_wall, java_wall = statistics.median(ours[1:]), statistics.median(java[1:])
    ratio = java_wall / our_wall
    measure.report(
        "1 M x 100 B in 1,000 transactions",
        ratio=round(ratio, 2),
        target=1.0,
        reached=ratio >= 1.0,
        ours_s=round(our_wall, 2),
        peer="KafkaProducer",
        peer_s=round(java_wall, 2),
        rounds=ROUNDS,
    )


def compile_program(directory: pathlib.Path) -> pathlib.Path:
    """The Java program as classes."""
    compiler = shutil.which("javac") or str(pathlib.Path(apache_kafka.java_executable()).with_name("javac"))
    source = directory / "Transactions.java"
    source.write_text(PROGRAM)
    subprocess.run([compiler, "-d", str(directory), "-cp", apache_kafka.jars(), str(source)], check=True)
    return directory


def our_seconds(bootstrap: str, lines: pathlib.Path) -> float:
    """The whole run of kt."""
    command = [
        *peers.KT, "console-producer", "--bootstrap-server", bootstrap, "--topic", "transactions",
        "--transactional-id", "kt", "--transaction-records", str(RECORDS // TRANSACTIONS),
    ]  # fmt: skip
    return measure.run(measure.Work(command, stdin=lines)).wall_s


def java_seconds(bootstrap: str, classes: pathlib.Path, transactional_id: str) -> float:
    """What the Java program measured of itself."""
    command = [
        apache_kafka.java_executable(), "-Xmx512m", "-Xshare:auto", "-cp", f"{classes}:{apache_kafka.jars()}",
        "Transactions", bootstrap, "transactions", transactional_id, str(TRANSACTIONS), str(RECORDS // TRANSACTIONS),
    ]  # fmt: skip
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
