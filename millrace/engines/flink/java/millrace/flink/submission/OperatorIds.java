package millrace.flink.submission;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.flink.api.dag.Transformation;

/**
 * Operator ids that outlive a change of the plan, so that a savepoint of the old job restores into the new one.
 *
 * <p>Flink's Table API numbers operators as it meets them, so one more rule would give nearly all of them another id.
 * Here an operator that keeps state is named for what it is: a source and a sink for its table, the memory by the uid
 * of its call, a window for its own definition. Whatever keeps no state is named for its definition and its inputs.
 */
final class OperatorIds {
    /** `Calc[13]`, and `[13]:Calc(...)` in a description. */
    private static final Pattern NUMBER = Pattern.compile("\\[\\d+\\]:?");
    /** Edges of the graph, which take no id. */
    private static final Set<String> EDGES = Set.of("PartitionTransformation", "UnionTransformation");

    private final Map<Integer, String> given = new HashMap<>();
    private final Map<String, String> names = new HashMap<>();

    private OperatorIds() {}

    /** Gives every operator its id. */
    static void ensureStable(List<Transformation<?>> transformations) {
        OperatorIds ids = new OperatorIds();
        transformations.forEach(ids::name);
    }

    private String name(Transformation<?> transformation) {
        String before = given.get(transformation.getId());
        if (before != null) {
            return before;
        }
        List<String> inputs = transformation.getInputs().stream().map(this::name).toList();
        String uid = transformation.getUid() != null ? transformation.getUid() : uid(transformation, inputs);
        given.put(transformation.getId(), uid);
        if (!EDGES.contains(transformation.getClass().getSimpleName())) {
            String other = names.put(uid, transformation.getName());
            if (other != null) {
                throw new IllegalStateException("two operators would have the id '" + uid + "': " + other + " and "
                        + transformation.getName());
            }
            transformation.setUid(uid);
        }
        return uid;
    }

    private static String uid(Transformation<?> transformation, List<String> inputs) {
        String kind = transformation.getClass().getSimpleName();
        String name = unnumbered(transformation.getName());
        if (kind.equals("SourceTransformation") || kind.equals("SinkTransformation")) {
            String word = kind.equals("SourceTransformation") ? "source " : "sink ";
            return word + name.substring(name.lastIndexOf('.') + 1);
        }
        String description = transformation.getDescription();
        List<String> parts = new ArrayList<>();
        parts.add(description == null || description.isEmpty() ? name : unnumbered(description));
        if (!name.contains("WindowAggregate")) {
            parts.addAll(inputs);
        }
        return name + " " + digest(String.join("\0", parts));
    }

    private static String unnumbered(String text) {
        return NUMBER.matcher(text).replaceAll("");
    }

    private static String digest(String text) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(digest).substring(0, 12);
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }
}
