import java.io.File;
import java.io.FileOutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** A ResourceManager and a NodeManager of Apache Hadoop in one JVM; writes yarn-site.xml for clients, and ends with its standard input. */
public class MiniYarn {
    public static void main(String[] words) throws Exception {
        File directory = new File(words[0]);
        YarnConfiguration settings = new YarnConfiguration();
        settings.set("yarn.scheduler.minimum-allocation-mb", "128");
        settings.set("yarn.nodemanager.resource.memory-mb", "4096");
        settings.set("yarn.nodemanager.vmem-check-enabled", "false");
        settings.set("yarn.nodemanager.pmem-check-enabled", "false");
        settings.set("yarn.nodemanager.env-whitelist", "JAVA_HOME");
        settings.set("yarn.resourcemanager.scheduler.class", "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler");
        settings.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "100");
        settings.set("yarn.nodemanager.disk-health-checker.min-free-space-per-disk-mb", "0");
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);  // threads of a half-started cluster would keep the JVM
        });
        MiniYARNCluster cluster = new MiniYARNCluster("kafkatools", 1, 1, 1);
        cluster.init(settings);
        cluster.start();
        Configuration made = cluster.getConfig();
        File part = new File(directory, "yarn-site.part");
        try (FileOutputStream out = new FileOutputStream(part)) {
            made.writeXml(out);
        }
        part.renameTo(new File(directory, "yarn-site.xml"));
        while (System.in.read() >= 0) {
        }
        cluster.stop();
        System.exit(0);
    }
}
