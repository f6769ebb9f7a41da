package io.samerack.streams;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;

/** A Unix socket whose connections go on to a port of this machine. */
final class TestSocket implements AutoCloseable {
    private final Path path;
    private final ServerSocketChannel listening;

    TestSocket(Path path, int port) throws IOException {
        this.path = path;
        listening = ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(UnixDomainSocketAddress.of(path));
        start(() -> {
            while (true) {
                SocketChannel here = listening.accept();
                SocketChannel there = SocketChannel.open(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
                start(() -> copy(here, there));
                start(() -> copy(there, here));
            }
        });
    }

    /** Work that ends when a channel is closed. */
    private interface Work {
        void run() throws IOException;
    }

    private static void start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException closed) {
                // the end of the connection, or of the test
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static void copy(SocketChannel from, SocketChannel to) throws IOException {
        ByteBuffer part = ByteBuffer.allocate(1 << 16);
        try (from; to) {
            while (from.read(part.clear()) >= 0) {
                part.flip();
                while (part.hasRemaining()) {
                    to.write(part);
                }
            }
        }
    }

    @Override
    public void close() throws IOException {
        listening.close();
        Files.deleteIfExists(path);
    }
}
