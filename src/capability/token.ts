import { randomBytes } from "node:crypto";
import { errors, jwtVerify, SignJWT } from "jose";

/** What a token says: for whom, for which run of which skill, for which capabilities, until when. */
export interface Claims {
  run: string;
  skill: string;
  capabilities: readonly string[];
  /** As `Date.now` counts. */
  until: number;
}

export type TokenProblem = "token-missing" | "token-invalid" | "token-expired";

/** The second factor: the socket says who asks, and the token must say the same. */
export interface Tokens {
  issue(claims: Claims): Promise<string>;
  /** What speaks against it, for a call of this run; nothing when all is right. `now`: as `Date.now` counts, without what nobody's time is. */
  problemOf(token: unknown, wanted: Pick<Claims, "run" | "skill">, now?: number): Promise<TokenProblem | undefined>;
}

const AUDIENCE = "skillet-broker";

/** Contract: the key is told to nobody; with it, all that it signed is worth nothing. */
export function openTokens(key: Uint8Array = randomBytes(32)): Tokens {
  return {
    issue: ({ run, skill, capabilities, until }) =>
      new SignJWT({ skill, capabilities: [...capabilities] })
        .setProtectedHeader({ alg: "HS256" })
        .setAudience(AUDIENCE)
        .setSubject(run)
        .setIssuedAt()
        .setExpirationTime(Math.floor(until / 1000))
        .setJti(randomBytes(12).toString("base64url"))
        .sign(key),
    async problemOf(token, { run, skill }, now = Date.now()) {
      if (typeof token !== "string" || token === "") return "token-missing";
      try {
        const { payload } = await jwtVerify(token, key, {
          audience: AUDIENCE,
          subject: run,
          algorithms: ["HS256"],
          requiredClaims: ["exp", "jti"],
          currentDate: new Date(now),
        });
        return payload["skill"] === skill && Array.isArray(payload["capabilities"]) ? undefined : "token-invalid";
      } catch (error) {
        return error instanceof errors.JWTExpired ? "token-expired" : "token-invalid";
      }
    },
  };
}
