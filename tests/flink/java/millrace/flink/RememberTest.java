package millrace.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.flink.table.types.inference.CallContext;
import org.junit.jupiter.api.Test;

/** How long Flink keeps what the function remembers. */
final class RememberTest {
    @Test
    void onlyIdsExpireAndAfterTheirTime() {
        Class<?>[] of = {CallContext.class};
        CallContext call = (CallContext) Proxy.newProxyInstance(CallContext.class.getClassLoader(), of,
                (proxy, method, arguments) -> Optional.of("{\"remembered_ms\": 60000, \"kept_ms\": 90000}"));
        Map<String, Optional<Duration>> found = new LinkedHashMap<>();
        new Remember().getTypeInference(null).getStateTypeStrategies()
                .forEach((name, state) -> found.put(name, state.getTimeToLive(call)));
        Optional<Duration> kept = Optional.of(Duration.ofSeconds(90));
        assertEquals(Map.of("memory", Optional.empty(), "seen", kept, "arrived", kept), found);
    }
}
