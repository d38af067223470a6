package millrace.flink.rest;

import static org.apache.flink.shaded.netty4.io.netty.handler.codec.http.HttpHeaderNames.HOST;
import static org.apache.flink.shaded.netty4.io.netty.handler.codec.http.HttpHeaderNames.ORIGIN;

import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.runtime.io.network.netty.InboundChannelHandlerFactory;
import org.apache.flink.runtime.rest.FileUploadHandler;
import org.apache.flink.runtime.rest.handler.FileUploads;
import org.apache.flink.shaded.netty4.io.netty.channel.ChannelFutureListener;
import org.apache.flink.shaded.netty4.io.netty.channel.ChannelHandler;
import org.apache.flink.shaded.netty4.io.netty.channel.ChannelHandlerContext;
import org.apache.flink.shaded.netty4.io.netty.channel.ChannelInboundHandlerAdapter;
import org.apache.flink.shaded.netty4.io.netty.handler.codec.http.DefaultFullHttpResponse;
import org.apache.flink.shaded.netty4.io.netty.handler.codec.http.HttpHeaderNames;
import org.apache.flink.shaded.netty4.io.netty.handler.codec.http.HttpHeaders;
import org.apache.flink.shaded.netty4.io.netty.handler.codec.http.HttpMethod;
import org.apache.flink.shaded.netty4.io.netty.handler.codec.http.HttpRequest;
import org.apache.flink.shaded.netty4.io.netty.handler.codec.http.HttpResponseStatus;
import org.apache.flink.shaded.netty4.io.netty.handler.codec.http.HttpVersion;
import org.apache.flink.shaded.netty4.io.netty.util.ReferenceCountUtil;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Refuses what another web page sends to a cluster on this machine.
 *
 * <p>Flink's REST takes a job, a stop or a cancellation from any client that reaches it, and the browser of a person at this
 * machine does: a page from anywhere may have it send a form or load an image. A browser marks such a request by
 * {@code Origin} or {@code Sec-Fetch-Site}; a page whose own name leads to this machine, by {@code Host}. Following a
 * link to the first page is let through. Where Flink listens to other machines, it is for others to guard it.
 */
public final class OwnPagesOnly implements InboundChannelHandlerFactory {
    @Override
    public int priority() {
        return 0;
    }

    @Override
    public Optional<ChannelHandler> createHandler(Configuration configuration, Map<String, String> responseHeaders) {
        return isLoopback(configuration.get(RestOptions.BIND_ADDRESS)) ? Optional.of(new Guard()) : Optional.empty();
    }

    private static boolean isLoopback(String address) {
        try {
            return address != null && InetAddress.getByName(address).isLoopbackAddress();
        } catch (UnknownHostException nowhere) {
            return false;
        }
    }

    private static final class Guard extends ChannelInboundHandlerAdapter {
        private static final Logger LOG = LoggerFactory.getLogger(OwnPagesOnly.class);
        private static final Set<String> HOSTS = Set.of("127.0.0.1", "localhost", "[::1]");
        private static final Set<String> FIRST_PAGE = Set.of("/", "/index.html");

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            if (!(message instanceof HttpRequest) || isOurs((HttpRequest) message)) {
                context.fireChannelRead(message);
                return;
            }
            ReferenceCountUtil.release(message);
            try (FileUploads unwanted = FileUploadHandler.getMultipartFileUploads(context)) {
                LOG.warn("A request of another web page was refused, with {} files", unwanted.getUploadedFiles().size());
            } catch (IOException left) {
                LOG.warn("What a refused request has sent along could not be deleted", left);
            }
            DefaultFullHttpResponse refusal =
                    new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.FORBIDDEN);
            refusal.headers().set(HttpHeaderNames.CONTENT_LENGTH, 0);
            context.writeAndFlush(refusal).addListener(ChannelFutureListener.CLOSE);
        }

        private static boolean isOurs(HttpRequest request) {
            HttpHeaders headers = request.headers();
            String host = headers.get(HOST, "");
            String origin = headers.get(ORIGIN);
            if (!HOSTS.contains(host.replaceFirst(":\\d+$", ""))) {
                return false;
            }
            if (origin != null && !origin.equals("http://" + host)) {
                return false;
            }
            String site = headers.get("Sec-Fetch-Site", "none");
            boolean isFollowingALink = request.method().equals(HttpMethod.GET)
                    && "navigate".equals(headers.get("Sec-Fetch-Mode"))
                    && FIRST_PAGE.contains(request.uri());
            return site.equals("none") || site.equals("same-origin") || isFollowingALink;
        }
    }
}
