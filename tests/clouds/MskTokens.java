package samerack.sandbox;

import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;

/**
 * What a broker of Amazon MSK does with a token of SASL OAUTHBEARER, as far as AWS publishes it: the token is a presigned
 * request kafka-cluster:Connect, whose host, scope, age and signature must be right. AWS has the secret; here it is given
 * by system properties. Nothing of AWS's own code is in it.
 */
public final class MskTokens extends CloudTokens {
  private static final String ALGORITHM = "AWS4-HMAC-SHA256";
  private static final DateTimeFormatter STAMP =
      DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);
  private static final long MOST_AHEAD_SECONDS = 300;

  private final String region = System.getProperty("samerack.msk.region");
  private final String key = System.getProperty("samerack.msk.key");
  private final String secret = System.getProperty("samerack.msk.secret");
  private final String session = System.getProperty("samerack.msk.session");

  @Override
  OAuthBearerToken checked(String text) throws GeneralSecurityException {
    URI url = URI.create(decoded(text));
    Map<String, String> query = new TreeMap<>();
    for (String pair : url.getRawQuery().split("&")) {
      int at = pair.indexOf('=');
      if (query.put(unquoted(pair.substring(0, at)), unquoted(pair.substring(at + 1))) != null) {
        throw new IllegalArgumentException("a parameter is listed twice");
      }
    }
    String host = "kafka." + region + ".amazonaws.com";
    same("scheme", "https", url.getScheme());
    same("host", host, url.getHost());
    same("path", "/", url.getPath());
    same("Action", "kafka-cluster:Connect", query.get("Action"));
    same("X-Amz-Algorithm", ALGORITHM, query.get("X-Amz-Algorithm"));
    same("X-Amz-SignedHeaders", "host", query.get("X-Amz-SignedHeaders"));
    same("X-Amz-Expires", "900", query.get("X-Amz-Expires"));
    same("X-Amz-Security-Token", session, query.get("X-Amz-Security-Token"));
    String stamp = query.get("X-Amz-Date");
    String scope = stamp.substring(0, 8) + "/" + region + "/kafka-cluster/aws4_request";
    same("X-Amz-Credential", key + "/" + scope, query.get("X-Amz-Credential"));
    Instant begins = STAMP.parse(stamp, Instant::from);
    Instant ends = begins.plusSeconds(900);
    if (Instant.now().isAfter(ends) || Instant.now().plusSeconds(MOST_AHEAD_SECONDS).isBefore(begins)) {
      throw new IllegalArgumentException("signature expired, or not valid yet: " + stamp);
    }
    String agent = query.remove("User-Agent");
    if (agent == null || agent.isEmpty()) {
      throw new IllegalArgumentException("no User-Agent");
    }
    String signature = query.remove("X-Amz-Signature");
    StringBuilder asked = new StringBuilder();
    query.forEach((name, value) ->
        asked.append(asked.isEmpty() ? "" : "&").append(quoted(name)).append('=').append(quoted(value)));
    String request = "GET\n/\n" + asked + "\nhost:" + host + "\n\nhost\n" + hash("");
    String signed = ALGORITHM + "\n" + stamp + "\n" + scope + "\n" + hash(request);
    byte[] now = ("AWS4" + secret).getBytes(StandardCharsets.UTF_8);
    for (String part : scope.split("/")) {
      now = keyed(now, part);
    }
    same("X-Amz-Signature", HexFormat.of().formatHex(keyed(now, signed)), signature);
    return new Accepted(text, key, begins.toEpochMilli(), ends.toEpochMilli());
  }

  private static String unquoted(String text) {
    return URLDecoder.decode(text, StandardCharsets.UTF_8);
  }

  private static String quoted(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20").replace("*", "%2A").replace("%7E", "~");
  }

  private static String hash(String text) throws GeneralSecurityException {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
  }

  private static byte[] keyed(byte[] key, String text) throws GeneralSecurityException {
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(key, "HmacSHA256"));
    return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
  }
}
