package millrace.storm;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.storm.security.auth.ReqContext;
import org.apache.storm.security.auth.SimpleTransportPlugin;
import org.apache.storm.thrift.TProcessor;
import org.apache.storm.thrift.protocol.TBinaryProtocol;
import org.apache.storm.thrift.server.THsHaServer;
import org.apache.storm.thrift.server.TServer;
import org.apache.storm.thrift.transport.TNonblockingServerSocket;
import org.apache.storm.thrift.transport.TTransportException;

/**
 * Servers of Nimbus and the supervisor that listen on loopback: Storm's own transport has no address to bind to, and
 * listens on all.
 */
public final class LoopbackTransport extends SimpleTransportPlugin {
    private int port;

    @Override
    public TServer getServer(TProcessor processor) throws TTransportException {
        InetAddress loopback = InetAddress.getLoopbackAddress();
        var socket = new TNonblockingServerSocket(new InetSocketAddress(loopback, type.getPort(topoConf)));
        port = socket.getPort();
        int threads = type.getNumThreads(topoConf);
        int bytesMost = type.getMaxBufferSize(topoConf);
        Integer queued = type.getQueueSize(topoConf);
        THsHaServer.Args server = new THsHaServer.Args(socket)
                .processor((in, out) -> {
                    ReqContext.context().setRemoteAddress(loopback);
                    ReqContext.context().setSubject(null); // nobody authenticates
                    processor.process(in, out);
                })
                .maxWorkerThreads(threads)
                .protocolFactory(new TBinaryProtocol.Factory(false, true, bytesMost, -1));
        server.maxReadBufferBytes = bytesMost;
        if (queued != null) {
            server.executorService(new ThreadPoolExecutor(
                    threads, threads, 60, TimeUnit.SECONDS, new ArrayBlockingQueue<>(queued)));
        }
        return new THsHaServer(server);
    }

    @Override
    public int getPort() {
        return port;
    }
}
