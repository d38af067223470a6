package millrace.flink.arrivals;

import java.io.IOException;
import java.util.Base64;
import java.util.List;
import java.util.TreeMap;

/** Reads the state of the source as a version wrote it, and again as it is written now: prints what both say. */
final class SplitState {
    public static void main(String[] arguments) throws IOException {
        int version = Integer.parseInt(arguments[0]);
        ArrivalSplit.Serializer splits = new ArrivalSplit.Serializer();
        ArrivalSplit split = splits.deserialize(version, bytes(arguments[1]));
        print(split);
        print(splits.deserialize(splits.getVersion(), splits.serialize(split)));
        ArrivalEnumerator.State.Serializer states = new ArrivalEnumerator.State.Serializer();
        ArrivalEnumerator.State state = states.deserialize(version, bytes(arguments[2]));
        byte[] written = states.serialize(state);
        ArrivalEnumerator.State again = states.deserialize(states.getVersion(), written);
        System.out.println(java.util.Arrays.equals(written, states.serialize(again)));
        ArrivalSplit next = new ArrivalSplit(3, split.next(), new TreeMap<>(java.util.Map.of("t", "id")));
        print(splits.deserialize(splits.getVersion(), splits.serialize(next)));
        System.out.println(Loss.parse(Loss.json(List.of(new Loss("t", 1, 2, 3, 4, "now", "was")))));
    }

    private static byte[] bytes(String base64) {
        return Base64.getDecoder().decode(base64);
    }

    private static void print(ArrivalSplit split) {
        System.out.println(split.partition() + " " + new TreeMap<>(split.next()) + " " + new TreeMap<>(split.ids()));
    }
}
