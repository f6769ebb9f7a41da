package io.samerack.streams;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One HTTP/1.1 exchange over a Unix socket, which the JDK's HTTP client cannot have.
 *
 * <p>The connection is closed after it, so that an answer ends where the stream ends; the agent sends no other encoding.
 */
final class UnixSocket {
    private static final Pattern STATUS = Pattern.compile("HTTP/1\\.[01] (\\d{3})[ \r]");
    private static final String END_OF_HEAD = "\r\n\r\n";
    private static final int PART_BYTES = 1 << 16;

    private UnixSocket() {}

    /**
     * Posts a document, on a thread of its own; to cancel the future closes the connection.
     *
     * @param socket where the agent listens
     * @param path of the resource
     * @param body a JSON document
     * @param maxBytes of the answer
     */
    static CompletableFuture<Agent.Answer> post(Path socket, String path, String body, int maxBytes) {
        CompletableFuture<Agent.Answer> answer = new CompletableFuture<>();
        Thread thread = new Thread(() -> run(answer, socket, path, body, maxBytes), "samerack-agent");
        thread.setDaemon(true);
        thread.start();
        return answer;
    }

    private static void run(
            CompletableFuture<Agent.Answer> answer, Path socket, String path, String body, int maxBytes) {
        try (SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX)) {
            answer.whenComplete((found, failure) -> close(channel));
            channel.connect(UnixDomainSocketAddress.of(socket));
            write(channel, request(path, body.getBytes(StandardCharsets.UTF_8)));
            answer.complete(read(channel, maxBytes));
        } catch (Throwable failure) { // also of memory: whoever asked must not wait until the deadline
            answer.completeExceptionally(failure);
        }
    }

    private static void close(SocketChannel channel) {
        try {
            channel.close();
        } catch (IOException closed) {
            // nothing is left to do
        }
    }

    private static ByteBuffer request(String path, byte[] body) {
        String head = "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                + "Accept: application/json\r\nContent-Length: " + body.length + END_OF_HEAD;
        byte[] bytes = head.getBytes(StandardCharsets.US_ASCII);
        return ByteBuffer.allocate(bytes.length + body.length).put(bytes).put(body).flip();
    }

    private static void write(SocketChannel channel, ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    private static Agent.Answer read(SocketChannel channel, int maxBytes) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ByteBuffer part = ByteBuffer.allocate(PART_BYTES);
        while (channel.read(part.clear()) >= 0) {
            bytes.write(part.array(), 0, part.position());
            if (bytes.size() > maxBytes) {
                throw new BoundedBody.TooLongException(maxBytes);
            }
        }
        String text = bytes.toString(StandardCharsets.UTF_8);
        Matcher status = STATUS.matcher(text);
        int head = text.indexOf(END_OF_HEAD);
        if (head < 0 || !status.lookingAt()) {
            throw new IOException("the connection ended before the answer did");
        }
        return new Agent.Answer(Integer.parseInt(status.group(1)), text.substring(head + END_OF_HEAD.length()));
    }
}
