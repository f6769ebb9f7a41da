package io.samerack.streams;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;

/** An HTTP server in the agent's place: gives the answers that a test wants, and keeps what it was asked. */
final class TestAgent implements AutoCloseable {
    final List<String> questions = new CopyOnWriteArrayList<>();
    final BlockingQueue<String> outcomes = new LinkedBlockingQueue<>();
    final BlockingQueue<String> preparations = new LinkedBlockingQueue<>();
    /** What is answered next. */
    volatile String answer = "";
    volatile int status = 200;
    /** Whether the whole answer is held back until the end. */
    volatile boolean isSilent;

    private final CountDownLatch closed = new CountDownLatch(1);
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final HttpServer server;

    TestAgent() {
        this(0);
    }

    TestAgent(int port) {
        try {
            server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
        server.setExecutor(threads);
        server.createContext(AgentTaskAssignor.ASSIGN, this::assign);
        server.createContext(AgentTaskAssignor.COMPUTED, exchange -> take(exchange, outcomes));
        server.createContext(AgentTaskAssignor.PREPARE, exchange -> take(exchange, preparations));
        server.start();
    }

    int port() {
        return server.getAddress().getPort();
    }

    /** Returns the properties of an application that asks this agent and has time, with the given ones added. */
    Map<String, Object> properties(String application, Map<String, ?> more) {
        Map<String, Object> found = new HashMap<>(more);
        found.put("application.id", application);
        found.putIfAbsent(Settings.TIMEOUT_MS, 20_000); // the machine may be busy
        found.putIfAbsent(Settings.URL, "http://127.0.0.1:" + port());
        return found;
    }

    private void assign(HttpExchange exchange) throws IOException {
        questions.add(new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8));
        if (isSilent) {
            try {
                closed.await();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }
        reply(exchange, status, answer);
    }

    private static void take(HttpExchange exchange, BlockingQueue<String> taken) throws IOException {
        taken.add(new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8));
        reply(exchange, 204, "");
    }

    private static void reply(HttpExchange exchange, int status, String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }

    @Override
    public void close() {
        closed.countDown();
        server.stop(0);
        threads.shutdownNow();
    }
}
