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
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.shaded.guava33.com.google.common.hash.Hashing;

/**
 * Operator ids that outlive a change of the plan, so that a savepoint of the old job restores into the new one.
 *
 * <p>Flink's Table API numbers operators as it meets them, so one more rule would give nearly all of them another id.
 * Here an operator that keeps state is named for what it is: a source and a sink for its table, the memory by the uid
 * of its call, a window for its own definition. Whatever keeps no state is named for its definition and its inputs.
 *
 * <p>The description of a window has the fields that it aggregates, but not what it computes of them: that is a column of
 * the operator before it, {@code $f3}. Where Flink aggregates in two phases, the second one has only numbered columns of
 * the first. So a window's definition is its description with these columns written out, and the first phase. An earlier
 * build left these out. Its state is found under the earlier id, which no savepoint of this build has, unless several
 * windows would find it.
 */
final class OperatorIds {
    /** `Calc[13]`, and `[13]:Calc(...)` in a description. */
    private static final Pattern NUMBER = Pattern.compile("\\[\\d+\\]:?");
    /** Edges of the graph, which take no id. */
    private static final Set<String> EDGES = Set.of("PartitionTransformation", "UnionTransformation");
    private static final Pattern COMPUTED = Pattern.compile("\\$f\\d+\\b");

    private final Map<Integer, String> given = new HashMap<>();
    private final Map<String, String> names = new HashMap<>();
    private final Map<String, List<Transformation<?>>> earlier = new HashMap<>();
    private final Map<String, Integer> alike = new HashMap<>(); // sinks, by the last part of the names of their tables

    private OperatorIds() {}

    /** Gives every operator its id. */
    static void ensureStable(List<Transformation<?>> transformations) {
        OperatorIds ids = new OperatorIds();
        transformations.stream().filter(each -> each.getClass().getSimpleName().equals("SinkTransformation"))
                .forEach(each -> ids.alike.merge(last(unnumbered(each.getName())), 1, Integer::sum));
        transformations.forEach(ids::name);
        ids.earlier.forEach((uid, windows) -> {
            if (windows.size() == 1 && !uid.equals(windows.get(0).getUid())) {
                windows.get(0).setUidHash(hash(uid));
            }
        });
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

    private String uid(Transformation<?> transformation, List<String> inputs) {
        String kind = transformation.getClass().getSimpleName();
        String name = unnumbered(transformation.getName());
        if (kind.equals("SourceTransformation") || kind.equals("SinkTransformation")) {
            String word = kind.equals("SourceTransformation") ? "source " : "sink ";
            return word + (alike.getOrDefault(last(name), 1) > 1 ? name : last(name));
        }
        String description = description(transformation);
        return name.contains("WindowAggregate")
                ? window(name, description, transformation)
                : id(name, description, String.join("\0", inputs));
    }

    private static String last(String name) {
        return name.substring(name.lastIndexOf('.') + 1);
    }

    private String window(String name, String description, Transformation<?> transformation) {
        earlier.computeIfAbsent(id(name, description), any -> new ArrayList<>()).add(transformation);
        Transformation<?> before = before(transformation);
        if (name.startsWith("Global")) {
            return id(name, description, given.get(before.getId()));
        }
        Map<String, String> computed = computed(description(before));
        return id(name, COMPUTED.matcher(description).replaceAll(column ->
                Matcher.quoteReplacement(computed.getOrDefault(column.group(), column.group()))));
    }

    private static String id(String name, String... parts) {
        return name + " " + digest(String.join("\0", parts));
    }

    private static String description(Transformation<?> transformation) {
        String description = transformation.getDescription();
        return unnumbered(description == null || description.isEmpty() ? transformation.getName() : description);
    }

    /** The operator whose rows an operator with one input gets. */
    private static Transformation<?> before(Transformation<?> transformation) {
        Transformation<?> found = transformation.getInputs().get(0);
        while (EDGES.contains(found.getClass().getSimpleName())) {
            found = found.getInputs().get(0);
        }
        return found;
    }

    /** The computed columns of `Calc(select=[a, UPPER(b) AS $f1], where=[...])`. */
    static Map<String, String> computed(String description) {
        Map<String, String> columns = new HashMap<>();
        String opening = "select=[";
        int start = description.indexOf(opening) + opening.length();
        int depth = 0;
        boolean isText = false;
        for (int at = start; start >= opening.length() && at < description.length() && depth >= 0; at++) {
            char each = description.charAt(at);
            isText ^= each == '\''; // a quote in a text is doubled
            depth += isText ? 0 : "([".indexOf(each) >= 0 ? 1 : ")]".indexOf(each) >= 0 ? -1 : 0;
            if (!isText && (depth < 0 || depth == 0 && each == ',')) {
                String column = description.substring(start, at).strip();
                int name = column.lastIndexOf(" AS $f");
                if (name >= 0) {
                    columns.put(column.substring(name + " AS ".length()), column.substring(0, name));
                }
                start = at + 1;
            }
        }
        return columns;
    }

    private static String unnumbered(String text) {
        return NUMBER.matcher(text).replaceAll("");
    }

    /** The id that Flink makes of a uid. */
    private static String hash(String uid) {
        return Hashing.murmur3_128(0).hashString(uid, StandardCharsets.UTF_8).toString();
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
