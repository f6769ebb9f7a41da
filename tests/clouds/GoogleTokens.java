package samerack.sandbox;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;

/**
 * The form of a token for Google's Managed Service for Apache Kafka, as far as Google publishes it: header, claims and
 * access token in base64 with dots between. Google knows whose the access token is; here it is given by system properties.
 */
public final class GoogleTokens extends CloudTokens {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long MOST_AHEAD_MILLISECONDS = 60_000;

  private final String access = System.getProperty("samerack.google.access");
  private final String account = System.getProperty("samerack.google.account");

  @Override
  OAuthBearerToken checked(String text) throws IOException {
    String[] parts = text.split("\\.", -1);
    if (parts.length != 3) {
      throw new IllegalArgumentException("the token has not three parts");
    }
    JsonNode header = JSON.readTree(decoded(parts[0]));
    JsonNode claims = JSON.readTree(decoded(parts[1]));
    same("typ", "JWT", header.path("typ").asText());
    same("alg", "GOOG_OAUTH2_TOKEN", header.path("alg").asText());
    same("iss", "Google", claims.path("iss").asText());
    same("sub", account, claims.path("sub").asText());
    same("access token", access, decoded(parts[2]));
    long now = System.currentTimeMillis();
    long begins = claims.path("iat").asLong() * 1000;
    long ends = claims.path("exp").asLong() * 1000;
    if (begins > now + MOST_AHEAD_MILLISECONDS || ends <= now) {
      throw new IllegalArgumentException("expired, or not valid yet");
    }
    return new Accepted(text, account, begins, ends);
  }
}
