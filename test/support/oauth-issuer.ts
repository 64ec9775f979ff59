import type { webcrypto } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { onTestFinished } from "vitest";

/** An authorization server on the loopback interface: its metadata, its keys, and tokens that it signs. */
export async function startOauthIssuer({ named }: { named?: string } = {}) {
  const keys: { kid: string; alg: string; privateKey: webcrypto.CryptoKey; publicKey: webcrypto.CryptoKey }[] = [];
  const requests: string[] = [];
  let isAway = false;
  const addKey = async (kid: string, alg = "ES256") => {
    const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
    keys.unshift({ kid, alg, privateKey, publicKey });
  };
  await addKey("first");
  const server = createServer(async (request, response) => {
    requests.push(request.url ?? "");
    const send = (body: unknown) => response.setHeader("content-type", "application/json").end(JSON.stringify(body));
    if (isAway) response.writeHead(500).end();
    else if (request.url === "/.well-known/oauth-authorization-server")
      send({ issuer: named ?? issuer, jwks_uri: `${issuer}/keys` });
    else if (request.url === "/keys")
      send({
        keys: await Promise.all(
          keys.map(async ({ kid, alg, publicKey }) => ({ ...(await exportJWK(publicKey)), kid, alg, use: "sig" })),
        ),
      });
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    issuer,
    requests,
    addKey,
    /** The keys that are published from now on. */
    removeKey: (kid: string) => {
      keys.splice(
        keys.findIndex((key) => key.kid === kid),
        1,
      );
    },
    setAway(away: boolean) {
      isAway = away;
    },
    /** Signs a token with the newest key. `undefined` removes a claim. */
    async sign(
      claims: Record<string, unknown> = {},
      header: Record<string, unknown> = {},
      key = keys[0],
    ): Promise<string> {
      if (!key) throw new Error("no key");
      const all = {
        iss: issuer,
        sub: "ada",
        scope: "use approve",
        exp: Math.floor(Date.now() / 1000) + 600,
        ...claims,
      };
      const payload = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
      return new SignJWT(payload)
        .setProtectedHeader({ alg: key.alg, kid: key.kid, typ: "at+jwt", ...header })
        .sign(key.privateKey);
    },
    key: () => keys[0],
  };
}
