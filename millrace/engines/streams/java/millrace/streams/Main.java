package millrace.streams;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import java.util.stream.Stream;
import millrace.kafka.Job;
import millrace.kafka.Losses;
import millrace.kafka.Pace;
import millrace.kafka.ProgressFile;
import millrace.kafka.ReferenceData;
import millrace.kernel.Loss;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs a job until it is stopped, fails, or a finite stream is at its end: {@code Main DECLARATION PROGRESS}, two files.
 *
 * <p>It writes its progress about once a second, and ends with an error instead of continuing with a part of its threads.
 */
public final class Main {
    private static final Logger LOG = LoggerFactory.getLogger(Main.class);
    private static final long LOOK_EVERY_MS = 500;
    private static final int LOSSES_EVERY = 20; // looks
    private static final Duration CLOSE_WITHIN = Duration.ofSeconds(60);
    private static final String CLEAN = "clean";
    // Changelogs keep removals for longer. What other processes have removed meanwhile would stay here otherwise.
    private static final Duration CLEAN_FOR = Duration.ofHours(1);

    private final Job job;
    private final ProgressFile progress;
    private final Pace pace;
    private Clock clock;
    private Map<String, String> ids = Map.of();
    private final CountDownLatch stop = new CountDownLatch(1);
    private final CountDownLatch ended = new CountDownLatch(1);
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

    private Main(Job job, ProgressFile progress) {
        this.job = job;
        this.progress = progress;
        pace = new Pace(job.topic(job.judged()), job.liveMs(), System::currentTimeMillis);
    }

    public static void main(String[] arguments) throws Exception {
        ProgressFile progress = new ProgressFile(Path.of(arguments[1]));
        progress.write("starting", null, List.of(), 0, 0);
        Main main = new Main(Job.read(Path.of(arguments[0])), progress);
        Runtime.getRuntime().addShutdownHook(new Thread(main::stopAndWait, "stop"));
        int code;
        try {
            code = main.run();
        } catch (Exception error) {
            LOG.error("the job has failed", error);
            progress.write("failed", problem(error), List.of(), 0, 0);
            code = 1;
        } finally {
            main.ended.countDown();
        }
        System.exit(code);
    }

    private void stopAndWait() {
        stop.countDown();
        try {
            ended.await();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private int run() throws IOException, InterruptedException {
        try (Losses losses = new Losses(job); ReferenceData references = new ReferenceData(job)) {
            List<Loss> lost = losses.found();
            if (lost.isEmpty()) {
                takeUp(losses);
                lost = run(losses, references);
            }
            Throwable failed = failure.get();
            boolean isFailed = failed != null || !lost.isEmpty();
            progress.write(isFailed ? "failed" : "stopped", problem(failed), lost, pace.commits(), pace.lag());
            return isFailed ? 1 : 0;
        }
    }

    /** Runs until it is stopped; gives what was lost meanwhile. */
    private List<Loss> run(Losses losses, ReferenceData references) throws IOException, InterruptedException {
        List<Loss> lost = List.of();
        LongSupplier steadyMs = steady();
        clock = new Clock(losses.partitions(), job.disorderMs(), job.idleMs(), pace, steadyMs);
        Clients clients = new Clients(
                pace, job.rawTopics(), waits(), () -> Instances.notes(job, clock), job.isShared(), steadyMs);
        try (Instances others = new Instances(job, pace, clock);
                KafkaStreams streams = new KafkaStreams(
                        Layout.of(job, references.tables(), pace, clock), settings(job), clients)) {
            streams.setUncaughtExceptionHandler(error -> {
                failure.compareAndSet(null, error);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            others.start();
            streams.start();
            for (int look = 0; !stop.await(LOOK_EVERY_MS, TimeUnit.MILLISECONDS) && failure.get() == null; look++) {
                boolean isRunning = streams.state() == KafkaStreams.State.RUNNING;
                progress.write(isRunning ? "running" : "starting", null, List.of(),
                        isRunning ? 1 + pace.commits() : 0, pace.lag());
                failure.compareAndSet(null, references.problem());
                if (look % LOSSES_EVERY == 0 && losses.hasNewTopic(ids)) {
                    break;
                }
                if (job.isFinite() && isRunning && isOver()) {
                    break;
                }
            }
            // Without its member the next process starts at once, and offsets can be set.
            boolean isClosed = streams.close(CloseOptions.timeout(CLOSE_WITHIN)
                    .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
            if (isClosed && failure.get() == null) {
                Files.writeString(job.folder().resolve(CLEAN), ids.toString());
            }
        }
        if (stop.getCount() > 0) {
            lost = losses.found();
        }
        return lost;
    }

    /** Whether all of a finite stream is judged, and all its windows are closed. */
    private boolean isOver() {
        if (pace.read() < clock.tasks() || !pace.isDone()) {
            return false;
        }
        clock.end();
        return job.windows() == null || clock.isOver();
    }

    /** Prepares what the job continues from: local state only if the job before ended in order, and offsets. */
    private void takeUp(Losses losses) throws IOException {
        ids = losses.ids();
        // What a crash leaves on disk may be ahead of the changelogs, which have all that counts. Those of a pattern
        // whose data was removed are empty: its topics have other ids.
        Path clean = job.folder().resolve(CLEAN);
        if (!isClean(clean, ids.toString(), Instant.now())) {
            remove(job.folder());
        }
        Files.deleteIfExists(clean);
        Files.createDirectories(job.folder());
        losses.settle();
        pace.identify(ids);
    }

    /** Whether local state is that of a job with these topics that ended in order, and not long ago. */
    static boolean isClean(Path mark, String ids, Instant now) throws IOException {
        return Files.exists(mark) && Files.readString(mark).equals(ids)
                && Files.getLastModifiedTime(mark).toInstant().isAfter(now.minus(CLEAN_FOR));
    }

    /** The wall clock, from now on without the steps in which it is set: those are no silence. */
    private static LongSupplier steady() {
        long startMs = System.currentTimeMillis();
        long startNs = System.nanoTime();
        return () -> startMs + TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs);
    }

    /**
     * Messages that must not be written before the outputs that they rest on: {@link millrace.kernel.Stage}. A
     * transaction holds both or neither.
     */
    private Predicate<ProducerRecord<byte[], byte[]>> waits() {
        if (job.isExactlyOnce()) {
            return message -> false;
        }
        String memory = Layout.changelog(job.pattern(), Layout.MEMORY);
        String windows = Layout.changelog(job.pattern(), Layout.WINDOWS);
        return message -> message.topic().equals(memory)
                || message.topic().equals(windows) && message.value() == null;
    }

    static Properties settings(Job job) {
        Properties settings = new Properties();
        settings.putAll(job.settings());
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, job.pattern());
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, job.bootstrap());
        settings.put(StreamsConfig.STATE_DIR_CONFIG, job.folder().toString());
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, job.threads());
        // Whoever takes over a partition has its state already.
        settings.putIfAbsent(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, job.isShared() ? 1 : 0);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
                job.isExactlyOnce() ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
        return settings;
    }

    private static String problem(Throwable error) {
        if (error == null) {
            return null;
        }
        Throwable cause = error;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause == error ? error.toString() : error.getMessage() + ": " + cause;
    }

    private static void remove(Path folder) throws IOException {
        if (!Files.exists(folder)) {
            return;
        }
        try (Stream<Path> paths = Files.walk(folder)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> {
                try {
                    Files.delete(path);
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            });
        }
    }
}
