package millrace.flink.rest;

import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsServer;
import com.sun.net.httpserver.spi.HttpServerProvider;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;

/**
 * Makes the HTTP servers of a JVM listen on loopback, where their address is any: Flink's reporter for Prometheus has an
 * option for its port, and none for its host. A JVM takes it by the property
 * {@code com.sun.net.httpserver.HttpServerProvider}, and needs {@code --add-exports=jdk.httpserver/sun.net.httpserver}.
 */
public final class OnLoopback extends HttpServerProvider {
    private static final String JDKS_OWN = "sun.net.httpserver.DefaultHttpServerProvider";

    private final HttpServerProvider own;

    public OnLoopback() throws ReflectiveOperationException {
        own = (HttpServerProvider) Class.forName(JDKS_OWN).getConstructor().newInstance();
    }

    @Override
    public HttpServer createHttpServer(InetSocketAddress address, int backlog) throws IOException {
        return own.createHttpServer(onLoopback(address), backlog);
    }

    @Override
    public HttpsServer createHttpsServer(InetSocketAddress address, int backlog) throws IOException {
        return own.createHttpsServer(onLoopback(address), backlog);
    }

    private static InetSocketAddress onLoopback(InetSocketAddress address) {
        boolean isAny = address != null && address.getAddress().isAnyLocalAddress();
        return isAny ? new InetSocketAddress(InetAddress.getLoopbackAddress(), address.getPort()) : address;
    }
}
