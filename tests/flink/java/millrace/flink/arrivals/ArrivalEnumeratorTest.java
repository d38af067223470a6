package millrace.flink.arrivals;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

final class ArrivalEnumeratorTest {
    // How many partitions were ever handed out and which, then how many splits wait and these: as ArrivalSplitTest has them.
    private static final String KNOWN_0_AND_3_WAITING_1 = "00000002 00000000 00000003 00000001 ";

    @Test
    void itsStateIsReadAsEachVersionWroteItAndWrittenInTheseBytes() throws IOException {
        ArrivalEnumerator.State.Serializer serializer = new ArrivalEnumerator.State.Serializer();
        String newest = KNOWN_0_AND_3_WAITING_1 + ArrivalSplitTest.VERSION_2;
        assertEquals(newest.replace(" ", ""), hex(serializer, 2, newest));
        assertEquals((KNOWN_0_AND_3_WAITING_1 + ArrivalSplitTest.VERSION_1 + "00000000").replace(" ", ""),
                hex(serializer, 1, KNOWN_0_AND_3_WAITING_1 + ArrivalSplitTest.VERSION_1));
        assertEquals(2, serializer.getVersion());
    }

    private static String hex(ArrivalEnumerator.State.Serializer serializer, int version, String state)
            throws IOException {
        return HexFormat.of().formatHex(serializer.serialize(serializer.deserialize(version, ArrivalSplitTest.bytes(state))));
    }
}
