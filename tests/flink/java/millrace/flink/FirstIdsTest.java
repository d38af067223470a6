package millrace.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.StringData;
import org.junit.jupiter.api.Test;

final class FirstIdsTest {
    @Test
    void theyAreInTheOrderOfTheirCodePoints() {
        // A letter beyond 16 bits is two units of UTF-16, each of which is less than U+FF5E.
        assertEquals(List.of("", "A", "a", "aa", "é", "\uff5e", "\ud83d\ude00"),
                first(List.of("\ud83d\ude00", "é", "aa", "\uff5e", "", "a", "A"), 9));
    }

    @Test
    void onlyTheFirstAreKept() {
        assertEquals(List.of("a", "b"), first(List.of("c", "b", "a"), 2));
    }

    @Test
    void equalIdsStandBesideEachOtherHoweverManyThereAre() {
        Random random = new Random(1);
        for (int size = 0; size < 500; size++) {
            List<String> ids = random.ints(size, 0, 9).mapToObj(String::valueOf).collect(Collectors.toList());
            assertEquals(ids.stream().sorted().collect(Collectors.toList()), first(ids, size));
        }
    }

    private static List<String> first(List<String> ids, int most) {
        Object[] internal = ids.stream().map(StringData::fromString).toArray();
        ArrayData found = new FirstIds().eval(new GenericArrayData(internal), most);
        return IntStream.range(0, found.size()).mapToObj(i -> found.getString(i).toString()).collect(Collectors.toList());
    }
}
