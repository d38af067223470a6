package millrace.kafka;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import millrace.kernel.Json;
import millrace.kernel.Loss;

/** The file from which an engine reads the progress of a job, replaced as a whole. */
public final class ProgressFile {
    private final Path path;

    public ProgressFile(Path path) {
        this.path = path;
    }

    public void write(String state, String problem, List<Loss> lost, long commits, long lag) throws IOException {
        write(state, problem, lost, commits, lag, Map.of());
    }

    /** Writes also what only one engine has. */
    public void write(
            String state, String problem, List<Loss> lost, long commits, long lag, Map<String, Object> more)
            throws IOException {
        Map<String, Object> progress = new LinkedHashMap<>();
        progress.put("state", state);
        progress.put("written_ms", System.currentTimeMillis());
        progress.put("problem", problem);
        progress.put("commits", commits);
        progress.put("lag", lag);
        progress.put("lost", lost.stream().map(Loss::fields).toList());
        progress.putAll(more);
        Path arriving = path.resolveSibling(path.getFileName() + ".arriving");
        Files.writeString(arriving, Json.text(progress));
        Files.move(arriving, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }
}
