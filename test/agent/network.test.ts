import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { runScript } from "../../src/agent/run/run-script.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";

async function listening(answer: (path: string) => { status?: number; location?: string; text?: string }) {
  const asked: string[] = [];
  const server: Server = createServer((request, response) => {
    asked.push(request.url ?? "");
    const { status = 200, location, text = "" } = answer(request.url ?? "");
    response.writeHead(status, location === undefined ? {} : { location }).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { asked, port: (server.address() as AddressInfo).port };
}

const scene = (script: string, config: string, file = "go.py"): Promise<Scene> =>
  discoverIn({
    "home/.skillet/skills/x/SKILL.md": skillText("x"),
    [`home/.skillet/skills/x/scripts/${file}`]: script,
    "home/.skillet/config.toml": config,
  });

const PYTHON = `import sys, urllib.request
for url in sys.argv[1:]:
    try: print(urllib.request.urlopen(url, timeout=5).read().decode())
    except Exception as error: print("refused" if "403" in str(error) or "refused" in str(error) else error)
`;

describe("the network of a script", () => {
  it("[Q-14] reaches only the hosts that the operator allowed for its skill", async () => {
    const open = await listening(() => ({ text: "hello" }));
    const closed = await listening(() => ({ text: "secret" }));
    const found = await scene(PYTHON, `[skills.x]\nnetwork = ["127.0.0.1:${open.port}"]\n`);
    const args = [open, closed].map(({ port }) => `http://127.0.0.1:${port}/`);
    const { stdout } = await runScript(found, { skill: found.skill("x"), script: "go", args });
    expect(stdout).toBe("hello\nrefused\n");
    expect(closed.asked).toEqual([]);
  });

  it("[Q-14] does not follow a redirect to another host", async () => {
    const closed = await listening(() => ({ text: "secret" }));
    const open = await listening(() => ({ status: 302, location: `http://127.0.0.1:${closed.port}/` }));
    const found = await scene(PYTHON, `[sandbox]\nnetwork = ["127.0.0.1:${open.port}"]\n`);
    const args = [`http://127.0.0.1:${open.port}/`];
    const { stdout } = await runScript(found, { skill: found.skill("x"), script: "go", args });
    expect({ stdout, asked: open.asked, leaked: closed.asked }).toEqual({
      stdout: "refused\n",
      asked: ["/"],
      leaked: [],
    });
  });

  it("[Q-14] is disabled without the operator's permission, for Node, curl and Python", async () => {
    const server = await listening(() => ({ text: "secret" }));
    const url = `http://127.0.0.1:${server.port}/`;
    const script = `python3 -c "import urllib.request; urllib.request.urlopen('${url}', timeout=3)" 2>/dev/null && echo python
node -e "fetch('${url}').then(() => console.log('node'), () => {})"
command -v curl >/dev/null && curl -sm 3 ${url}
echo end`;
    const found = await scene(script, "", "go.sh");
    const { stdout } = await runScript(found, { skill: found.skill("x"), script: "go" });
    expect({ stdout, asked: server.asked }).toEqual({ stdout: "end\n", asked: [] });
  });

  it("[Q-14] refuses localhost by name, since a name can resolve to anything", async () => {
    const server = await listening(() => ({ text: "secret" }));
    const found = await scene(PYTHON, `[skills.x]\nnetwork = ["localhost:${server.port}"]\n`);
    const args = [`http://localhost:${server.port}/`];
    const { stdout } = await runScript(found, { skill: found.skill("x"), script: "go", args });
    expect({ stdout, asked: server.asked }).toEqual({ stdout: "refused\n", asked: [] });
  });

  it.each(["*.example.com:443", "https://example.com:443", "0x7f.1:80"])("refuses to allow %j", async (entry) => {
    const found = await scene(PYTHON, `[skills.x]\nnetwork = ["${entry}"]\n`);
    const { refusals } = await runScript(found, { skill: found.skill("x"), script: "go" });
    const isSaidByConfiguration = found.configuration.diagnostics.some(({ code }) => code === "config-type");
    expect(isSaidByConfiguration || refusals[0]?.code === "network-endpoint").toBe(true);
  });
});
