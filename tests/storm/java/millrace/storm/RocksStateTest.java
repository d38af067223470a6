package millrace.storm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A state that notes its changes. */
final class RocksStateTest {
    @TempDir
    private Path folder;

    private RocksState state;

    @BeforeEach
    void isOpen() {
        state = new RocksState(folder);
    }

    @AfterEach
    void isClosed() {
        state.close();
    }

    @Test
    void changesComeOnceInTheOrderOfTheLastOnes() {
        state.put(bytes("a"), bytes("1"));
        state.put(bytes("b"), bytes("2"));
        state.put(bytes("a"), bytes("3"));
        state.remove(bytes("c"));
        assertEquals(List.of("b=2", "a=3", "c=null"), drained());
        assertEquals(List.of(), drained());
        assertEquals("3", text(state.get(bytes("a"))));
        assertNull(state.get(bytes("c")));
    }

    @Test
    void whatIsRestoredIsThereAndNoChange() {
        state.restore(bytes("a"), bytes("1"));
        state.restore(bytes("b"), bytes("2"));
        state.restore(bytes("a"), null);
        assertEquals(List.of(), drained());
        assertNull(state.get(bytes("a")));
        assertEquals("2", text(state.get(bytes("b"))));
    }

    @Test
    void entriesAreVisitedInTheOrderOfTheirUnsignedBytesUpToTheEnd() {
        state.put(new byte[] {(byte) 0xf0}, bytes("high"));
        state.put(new byte[] {0x10}, bytes("low"));
        state.put(new byte[] {0x10, 0}, bytes("longer"));
        state.put(new byte[] {(byte) 0xff}, bytes("end"));
        List<String> visited = new ArrayList<>();
        state.visit(new byte[] {0x10}, new byte[] {(byte) 0xff}, (key, value) -> visited.add(text(value)));
        assertEquals(List.of("low", "longer", "high"), visited);
        List<String> first = new ArrayList<>();
        state.visit(new byte[] {0x10}, new byte[] {(byte) 0xff}, (key, value) -> !first.add(text(value)));
        assertEquals(List.of("low"), first);
    }

    private List<String> drained() {
        List<String> changes = new ArrayList<>();
        state.drain((key, value) -> changes.add(text(key) + "=" + (value == null ? null : text(value))));
        return changes;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
