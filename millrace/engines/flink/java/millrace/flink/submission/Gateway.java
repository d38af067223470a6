package millrace.flink.submission;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Stream;
import millrace.kernel.Json;
import org.apache.flink.util.FlinkException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A client of Flink that stays warm: it takes submissions on a socket in a folder that only its user can enter.
 *
 * <p>One connection is one submission: JSON until the client has no more to write, and one JSON object back.
 */
public final class Gateway {
    private static final Logger LOG = LoggerFactory.getLogger(Gateway.class);

    private final List<String> library;

    private Gateway(List<String> library) {
        this.library = library;
    }

    /** Arguments: the folder for the socket, and the folder of the jars on the class path. */
    public static void main(String[] arguments) throws IOException {
        Gateway gateway = new Gateway(library(Path.of(arguments[1])));
        try (ServerSocketChannel server = listen(Path.of(arguments[0]))) {
            Thread warming = new Thread(Gateway::warmUp, "warm-up");
            warming.setDaemon(true);
            warming.start();
            ExecutorService clients = Executors.newCachedThreadPool();
            while (true) {
                SocketChannel client = server.accept();
                clients.execute(() -> gateway.serve(client));
            }
        }
    }

    private static ServerSocketChannel listen(Path folder) throws IOException {
        Files.createDirectories(folder);
        // The folder, not the socket: what is bound is open to others until its mode is changed.
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwx------"));
        Path socket = folder.resolve("socket");
        Files.deleteIfExists(socket);
        return ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(UnixDomainSocketAddress.of(socket));
    }

    /** The jars as they were when this process began: later links in the folder change nothing here. */
    private static List<String> library(Path folder) throws IOException {
        List<String> found = new ArrayList<>();
        try (Stream<Path> jars = Files.list(folder)) {
            for (Path jar : (Iterable<Path>) jars::iterator) {
                found.add(jar.toRealPath().toString());
            }
        }
        found.sort(null);
        return found;
    }

    /**
     * Submits what the standard input holds, a submission a line, to clusters that do not exist: so the first client
     * finds all classes loaded.
     */
    private static void warmUp() {
        long began = System.nanoTime();
        try {
            String text = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
            for (String line : text.lines().toList()) {
                try {
                    LOG.warn("a cluster took job {} of the warm-up", new Submission(line).submit());
                } catch (FlinkException unreachable) {
                    LOG.debug("planned; there is no cluster", unreachable);
                }
            }
            LOG.info("warm after {} ms", (System.nanoTime() - began) / 1_000_000);
        } catch (Exception error) {
            LOG.warn("not warmed up; the first submission takes longer", error);
        }
    }

    private void serve(SocketChannel client) {
        try (client; InputStream from = Channels.newInputStream(client); OutputStream to = Channels.newOutputStream(client)) {
            String text = new String(from.readAllBytes(), StandardCharsets.UTF_8);
            to.write(Json.text(answer(text)).getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            LOG.info("a client has gone: {}", error.toString());
        }
    }

    private Map<String, Object> answer(String text) {
        Map<String, Object> answer = new LinkedHashMap<>();
        if (text.isEmpty()) {
            answer.put("is_ready", true);
            return answer;
        }
        try {
            Map<String, Object> asked = Json.object(Json.parse(text));
            if (!library.equals(asked.get("library"))) {
                answer.put("refused", "it runs with other jars than the cluster's");
            } else if (System.currentTimeMillis() > (Long) asked.get("until_ms")) {
                answer.put("refused", "its client has given up");
            } else {
                answer.put("job_id", new Submission(text).submit());
            }
        } catch (Throwable error) {
            LOG.error("a submission failed", error);
            answer.put("error", trace(error));
        }
        return answer;
    }

    private static String trace(Throwable error) {
        StringWriter text = new StringWriter();
        error.printStackTrace(new PrintWriter(text));
        return text.toString();
    }
}
