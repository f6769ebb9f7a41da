package samerack.sandbox;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/** What a broker does with a token of SASL OAUTHBEARER that is no JWT: a subclass checks it, and says what is wrong. */
abstract class CloudTokens implements AuthenticateCallbackHandler {
  /** Whose token it is, and how long it is good; IllegalArgumentException says what is not right. */
  abstract OAuthBearerToken checked(String text) throws GeneralSecurityException, IOException;

  @Override
  public final void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {}

  @Override
  public final void close() {}

  @Override
  public final void handle(Callback[] callbacks) throws UnsupportedCallbackException {
    for (Callback callback : callbacks) {
      if (callback instanceof OAuthBearerValidatorCallback asked) {
        try {
          asked.token(checked(asked.tokenValue()));
        } catch (IllegalArgumentException | GeneralSecurityException | IOException wrong) {
          asked.error("Access denied: " + wrong.getMessage(), null, null);
        }
      } else if (callback instanceof OAuthBearerExtensionsValidatorCallback asked) {
        asked.inputExtensions().map().keySet().forEach(asked::valid);
      } else {
        throw new UnsupportedCallbackException(callback);
      }
    }
  }

  static String decoded(String part) {
    if (part.contains("=")) {
      throw new IllegalArgumentException("the token is padded");
    }
    return new String(Base64.getUrlDecoder().decode(part), StandardCharsets.UTF_8);
  }

  static void same(String what, String expected, String found) {
    if (!expected.equals(found)) {
      throw new IllegalArgumentException(what + " is not right");
    }
  }

  record Accepted(String value, String principalName, Long startTimeMs, long lifetimeMs) implements OAuthBearerToken {
    @Override
    public Set<String> scope() {
      return Set.of();
    }
  }
}
