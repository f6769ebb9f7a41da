package io.samerack.streams;

import io.samerack.streams.AgentException.Cause;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The agent at one address, asked for one application.
 *
 * <p>It outlives the assignor: Kafka Streams makes a new one for each rebalance, and the pause after a failure must
 * last. Each question is sent once.
 */
final class Agent {
    private static final Logger LOG = LoggerFactory.getLogger(AgentTaskAssignor.class);
    private static final Map<String, Agent> KNOWN = new ConcurrentHashMap<>();
    /** A plan of 10,000 tasks for 1,000 clients has 200 KB; a whole answer is held in memory several times. */
    private static final int MAX_ANSWER_BYTES = 8 << 20;
    private static final int MAX_REASON_LETTERS = 500;
    /** Of an answer to a notice, with its head. */
    private static final int MAX_RECEIPT_BYTES = 8 << 10;

    /** The agent is on this host, so that no proxy is between. */
    private static final HttpClient CLIENT = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .proxy(HttpClient.Builder.NO_PROXY)
            .build();

    /** What the agent answers. */
    record Answer(int status, String body) {}

    private final URI url;
    /** Nanoseconds of the assignor's clock; read and written by the threads of one application. */
    private volatile long failedAt;

    private volatile boolean hasFailed;

    private Agent(URI url) {
        this.url = url;
    }

    /** Returns the one at the address of the settings, for their application. */
    static Agent of(Settings settings) {
        return KNOWN.computeIfAbsent(settings.application + "\n" + settings.url, none -> new Agent(settings.url));
    }

    /** Begins the pause in which the agent is not asked. */
    void failed(long now) {
        failedAt = now;
        hasFailed = true;
    }

    /** Ends the pause. */
    void answered() {
        hasFailed = false;
    }

    /**
     * Fails if the agent failed a short time ago.
     *
     * @throws AgentException it did
     */
    void requireNoPause(Duration pause, long now) throws AgentException {
        if (hasFailed && now - failedAt < pause.toNanos()) {
            throw new AgentException(
                    Cause.BACKING_OFF, "the agent failed less than " + pause.toMillis() + " ms ago and is not asked");
        }
    }

    /**
     * Asks one question and waits for the answer.
     *
     * @param path of the resource
     * @param body a JSON document
     * @param time how long the whole exchange may take
     * @throws AgentException there is no answer, or it is an error
     */
    String ask(String path, String body, Duration time) throws AgentException {
        CompletableFuture<Answer> answer = post(path, body, time, MAX_ANSWER_BYTES);
        try {
            Answer found = answer.get(time.toNanos(), TimeUnit.NANOSECONDS);
            if (found.status() != 200) {
                throw new AgentException(
                        Cause.REFUSED, "the agent at " + url + " answered " + found.status() + reason(found.body()));
            }
            return found.body();
        } catch (TimeoutException late) {
            throw deadline(time, late);
        } catch (ExecutionException failure) {
            Throwable cause = failure.getCause();
            if (cause instanceof HttpTimeoutException) {
                throw deadline(time, cause);
            }
            Cause reason = cause instanceof BoundedBody.TooLongException ? Cause.UNREADABLE : Cause.NO_ANSWER;
            throw new AgentException(reason, "the agent at " + url + " gave no answer: " + cause, cause);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new AgentException(Cause.INTERRUPTED, "interrupted while the agent planned", interrupted);
        } finally {
            answer.cancel(true);
        }
    }

    /** Sends a notice without waiting; whether it arrives makes no difference here. */
    void send(String path, String body, Duration time) {
        post(path, body, time, MAX_RECEIPT_BYTES).orTimeout(time.toMillis(), TimeUnit.MILLISECONDS).whenComplete((answer, failure) -> {
            if (failure != null || answer.status() >= 300) {
                LOG.debug("The agent at {} did not accept {}: {}", url, path, failure != null ? failure : answer);
            }
        });
    }

    private CompletableFuture<Answer> post(String path, String body, Duration time, int maxBytes) {
        if (Settings.UNIX.equals(url.getScheme())) {
            return UnixSocket.post(Path.of(url.getPath()), path, body, maxBytes);
        }
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
                .timeout(time)
                .header("Content-Type", "application/json")
                .header("Accept", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(body, StandardCharsets.UTF_8))
                .build();
        CompletableFuture<HttpResponse<String>> sent = CLIENT.sendAsync(request, info -> new BoundedBody(maxBytes));
        CompletableFuture<Answer> answer = sent.thenApply(response -> new Answer(response.statusCode(), response.body()));
        answer.whenComplete((found, failure) -> sent.cancel(true));
        return answer;
    }

    private AgentException deadline(Duration time, Throwable cause) {
        return new AgentException(
                Cause.DEADLINE, "the agent at " + url + " did not answer within " + time.toMillis() + " ms", cause);
    }

    /** Returns what the agent gives as the reason, cut to a length and without control characters. */
    private static String reason(String body) {
        String text = body;
        try {
            if (JsonReader.read(text) instanceof Map<?, ?> fields && fields.get("error") instanceof String error) {
                text = error;
            }
        } catch (JsonReader.MalformedException noJson) {
            LOG.trace("the agent's refusal is no JSON", noJson);
        }
        text = text.replaceAll("\\p{Cntrl}", " ").trim();
        return text.isEmpty() ? "" : ": " + text.substring(0, Math.min(text.length(), MAX_REASON_LETTERS));
    }
}
