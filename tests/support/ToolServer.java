import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's tools one after the other, as main methods of one JVM. A request on stdin: the number of words,
 * the class and its arguments as UTF strings, the length of the tool's stdin and its bytes. The reply on stdout: the
 * exit status, and length and bytes of stdout and of stderr.
 *
 * The first exit of a tool is its end: what its thread prints afterwards is dropped, as a JVM that ends prints nothing
 * more. Shutdown hooks run then. The classes of the tools are loaded anew for each run, because they count in statics.
 */
public final class ToolServer {
    private static final String TOOLS = "org.apache.kafka.tools.";

    private static final class Ended extends Error {
        Ended() {
            super("exit", null, false, false);
        }
    }

    /** The tools by a loader of their own, everything else by the JVM's. */
    private static final class ToolLoader extends URLClassLoader {
        ToolLoader(URL[] jars) {
            super(jars, ToolServer.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith(TOOLS)) {
                return super.loadClass(name, resolve);
            }
            synchronized (getClassLoadingLock(name)) {
                Class<?> found = findLoadedClass(name);
                return found == null ? findClass(name) : found;
            }
        }
    }

    /** Takes what a tool prints. */
    private static final class Printed extends OutputStream {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int value) {
            if (!isOver()) {
                bytes.write(value);
            }
        }

        @Override
        public synchronized void write(byte[] values, int offset, int length) {
            if (!isOver()) {
                bytes.write(values, offset, length);
            }
        }

        synchronized byte[] take() {
            byte[] taken = bytes.toByteArray();
            bytes.reset();
            return taken;
        }
    }

    /** The stdin of the present tool. */
    private static final class Typed extends InputStream {
        private volatile InputStream present = InputStream.nullInputStream();

        @Override
        public int read() throws IOException {
            return present.read();
        }

        @Override
        public int read(byte[] values, int offset, int length) throws IOException {
            return present.read(values, offset, length);
        }

        @Override
        public int available() throws IOException {
            return present.available();
        }
    }

    private static final Printed OUT = new Printed();
    private static final Printed ERR = new Printed();
    private static final Typed IN = new Typed();
    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static final Thread TOOL = Thread.currentThread();
    private static Integer status;

    private static synchronized boolean isOver() {
        return status != null && Thread.currentThread() == TOOL;
    }

    private static synchronized void end(int value) {
        if (status == null) {
            status = value;
        }
        throw new Ended();
    }

    private static int run(URL[] jars, String name, String[] arguments, byte[] input) throws Exception {
        IN.present = new ByteArrayInputStream(input);
        synchronized (ToolServer.class) {
            status = null;
            HOOKS.clear();
        }
        try (ToolLoader loader = new ToolLoader(jars)) {
            TOOL.setContextClassLoader(loader);
            try {
                Class.forName(name, true, loader).getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException failed) {
                if (!(failed.getCause() instanceof Ended)) {
                    System.err.print("Exception in thread \"main\" ");
                    failed.getCause().printStackTrace();
                    synchronized (ToolServer.class) {
                        status = status == null ? 1 : status;
                    }
                }
            }
            runHooks();
        }
        System.out.flush();
        System.err.flush();
        return status == null ? 0 : status;
    }

    private static void runHooks() throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        synchronized (ToolServer.class) {
            HOOKS.forEach(hook -> threads.add(new Thread(hook)));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void reply(DataOutputStream replies, byte[] bytes) throws IOException {
        replies.writeInt(bytes.length);
        replies.write(bytes);
    }

    public static void main(String[] places) throws Exception {
        URL[] jars = new URL[places.length];
        for (int i = 0; i < places.length; i++) {
            jars[i] = new java.io.File(places[i]).toURI().toURL();
        }
        DataInputStream requests = new DataInputStream(new FileInputStream(FileDescriptor.in));
        DataOutputStream replies = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        System.setOut(new PrintStream(OUT, true));
        System.setErr(new PrintStream(ERR, true));
        System.setIn(IN);
        Exit.setExitProcedure((value, message) -> end(value));
        Exit.setHaltProcedure((value, message) -> end(value));
        Exit.setShutdownHookAdder((name, hook) -> {
            synchronized (ToolServer.class) {
                HOOKS.add(hook);
            }
        });
        while (true) {
            int count;
            try {
                count = requests.readInt();
            } catch (EOFException ended) {
                Runtime.getRuntime().halt(0);
                return;
            }
            String name = requests.readUTF();
            String[] arguments = new String[count - 1];
            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = requests.readUTF();
            }
            byte[] input = new byte[requests.readInt()];
            requests.readFully(input);
            int value = run(jars, name, arguments, input);
            replies.writeInt(value);
            reply(replies, OUT.take());
            reply(replies, ERR.take());
            replies.flush();
        }
    }
}
