package samerack.test;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;

/** Shows a client's metrics on a loopback port, under the names that Prometheus' JMX exporter gives them by default. */
final class MetricsPage {

    private MetricsPage() {}

    /** Serves what `metrics` gives at the time; the port is open until the process ends. */
    static void open(int port, Supplier<Map<MetricName, ? extends Metric>> metrics) {
        try {
            HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
            server.createContext("/metrics", exchange -> {
                byte[] body = text(metrics.get()).getBytes(StandardCharsets.UTF_8);
                exchange.getResponseHeaders().set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
                exchange.sendResponseHeaders(200, body.length);
                exchange.getResponseBody().write(body);
                exchange.close();
            });
            server.setExecutor(runnable -> {
                Thread thread = new Thread(runnable, "metrics-page");
                thread.setDaemon(true);
                thread.start();
            });
            server.start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String text(Map<MetricName, ? extends Metric> metrics) {
        Map<String, List<String>> families = metrics.entrySet().stream()
                .filter(entry -> entry.getValue().metricValue() instanceof Double)
                .collect(Collectors.groupingBy(
                        entry -> family(entry.getKey()),
                        TreeMap::new,
                        Collectors.mapping(
                                entry -> labels(entry.getKey()) + " " + entry.getValue().metricValue(),
                                Collectors.toList())));
        StringBuilder page = new StringBuilder();
        families.forEach((name, samples) -> {
            page.append("# TYPE ").append(name).append(" untyped\n");
            samples.forEach(sample -> page.append(name).append(sample).append('\n'));
        });
        return page.toString();
    }

    private static String family(MetricName name) {
        return plain("kafka_consumer_" + name.group() + "_" + name.name());
    }

    private static String labels(MetricName name) {
        return new TreeMap<>(name.tags()).entrySet().stream()
                .map(tag -> plain(tag.getKey()) + "=\"" + tag.getValue().replace("\\", "\\\\").replace("\"", "\\\"") + "\"")
                .collect(Collectors.joining(",", "{", "}"));
    }

    private static String plain(String text) {
        return text.replaceAll("[^a-zA-Z0-9_]", "_");
    }
}
