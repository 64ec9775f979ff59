import { findFirstMatch, type MatchSpan, splitKeywords } from "../rule.ts";
import type { SourceText } from "../source-text.ts";

/** Services that many skills use. An address there does not identify the recipient of the data. */
const KNOWN_SERVICES = new Set(
  "airtable.com algolia.com algolia.net alchemy.com amazonaws.com anthropic.com apify.com apple.com arxiv.org asana.com assemblyai.com atlassian.com atlassian.net azure.com azurewebsites.net bitbucket.org box.com brave.com browserbase.com calendly.com canva.com census.gov claude.ai clerk.com clickup.com cloudflare.com cohere.ai cohere.com coinbase.com coingecko.com confluent.cloud convex.cloud convex.dev crossref.org databricks.com datadoghq.com deepgram.com deepseek.com digitalocean.com discord.com docker.com docker.io docusign.net dropboxapi.com dropbox.com ebi.ac.uk elevenlabs.io etherscan.io europa.eu exa.ai facebook.com fal.ai fal.run figma.com firebaseio.com firecrawl.dev fly.dev fly.io frontapp.com gemini.google.com github.com githubusercontent.com gitlab.com google-analytics.com google.com googleapis.com grafana.net groq.com heroku.com herokuapp.com hetzner.cloud honeycomb.io hubapi.com hubspot.com huggingface.co infura.io instagram.com intercom.io ipinfo.io jina.ai klaviyo.com launchdarkly.com lemonsqueezy.com linear.app linkedin.com live.com loops.so mailchimp.com mailgun.net mapbox.com meta.com microsoft.com microsoftonline.com minimax.io mistral.ai mixpanel.com modal.run monday.com mongodb.com mozilla.org n8n.cloud nasa.gov neon.tech netlify.com newrelic.com ngc.nvidia.com nih.gov notion.com notion.so npmjs.com npmjs.org nvidia.com office.com office365.com okta.com openai.com openalex.org openrouter.ai openstreetmap.org opsgenie.com outlook.com pagerduty.com paypal.com perplexity.ai pinecone.io plaid.com planetscale.com plausible.io posthog.com postmarkapp.com pushover.net pypi.org qdrant.io railway.app reddit.com render.com replicate.com resend.com runpod.io salesforce.com semanticscholar.org sendgrid.com sentry.io serpapi.com serper.dev shopify.com slack.com snowflakecomputing.com sonarcloud.io spotify.com square.com stability.ai stripe.com supabase.co supabase.com tavily.com telegram.org tiktok.com together.ai together.xyz trello.com twilio.com twitch.tv twitter.com typeform.com uniprot.org unpkg.com upstash.io uspto.gov vercel.app vercel.com vimeo.com voyageai.com weaviate.io wikidata.org wikimedia.org wikipedia.org wolframalpha.com wordpress.com x.ai x.com youtube.com zapier.com zendesk.com zoho.com zoom.us".split(
    " ",
  ),
);
/** Placeholders (RFC 2606) and local hosts. */
const LOCAL_HOST =
  /^(?:localhost|host\.docker\.internal|(?:[\w-]{1,63}\.){0,5}(?:example\.(?:com|org|net)|localhost|local|internal|lan|svc)|0\.0\.0\.0|127\.[\d.]+|10\.[\d.]+|192\.168\.[\d.]+|172\.(?:1[6-9]|2\d|3[01])\.[\d.]+|169\.254\.[\d.]+|1\.1\.1\.1|1\.0\.0\.1|8\.8\.(?:8\.8|4\.4)|9\.9\.9\.9)$|^(?:my|the)[-_.]|^your|^my(?:company|corp|domain|app|site|server|host|org|project|blog|shop|store|website|api|team|service)\b|^x{2,}/i;
const HOST_ADDRESS =
  /\b(?:https?|wss?|ftp):\/\/(?:[\w.-]{0,60}(?::[^\s@/"'`]{0,60})?@)?([\w.-]{1,100})(?=[:/?#\s"'`)\\,;>\]}]|$)/gi;

/** Returns true if the host is literal, and not a placeholder, a local host or a known service. */
export function isOutsideHost(host: string): boolean {
  const name = host.toLowerCase().replace(/\.+$/, "");
  if (!name.includes(".") || LOCAL_HOST.test(name)) return false;
  const parts = name.split(".");
  return ![2, 3].some((count) => KNOWN_SERVICES.has(parts.slice(-count).join(".")));
}

/** Returns the first address in the text whose host is outside. */
export function findOutsideAddress(text: string): string | undefined {
  for (const [address, host = ""] of text.matchAll(HOST_ADDRESS)) if (isOutsideHost(host)) return address;
  return undefined;
}

const outsideHostCache = new WeakMap<SourceText, boolean>();

/** Returns true if code of the page names an outside address. */
export function mentionsOutsideHost(page: SourceText): boolean {
  const known = outsideHostCache.get(page);
  if (known !== undefined) return known;
  const is = page.lines.some((line, at) => page.isCode(at) && findOutsideAddress(line.slice(0, 1000)) !== undefined);
  outsideHostCache.set(page, is);
  return is;
}

/** Public hosts for texts and files, and addresses that only collect requests. */
export const FILE_HOST =
  /(?:^|[/.@\s"'`(<])(?:rentry\.(?:co|org)|glot\.io|pastebin\.com|hastebin\.com|paste\.(?:rs|ee|sh|org|mozilla\.org)|0x0\.st|transfer\.sh|termbin\.com|ix\.io|dpaste\.(?:com|org)|ghostbin\.\w{2,4}|telegra\.ph|t\.me\/\w{2,40}|mega\.nz|mediafire\.com|gofile\.io|anonfiles?\.\w{2,4}|bashupload\.com|file\.io|catbox\.moe|files\.catbox\.moe|litterbox\.catbox\.moe|wetransfer\.com|we\.tl|cdn\.discordapp\.com|justpaste\.it|controlc\.com|privatebin\.\w{2,4}|pixeldrain\.com|workupload\.com|sendspace\.com|tmpfiles\.org|oshi\.at|temp\.sh|uguu\.se|sprunge\.us|clbin\.com|zippyshare\.com|filebin\.net|paste\.c-net\.org|pst\.moe|bpa\.st|cl1p\.net|textbin\.net|pastes\.io|snippet\.host)\b/i;
export const DROP_HOST =
  /\b(?:webhook\.site|pipedream\.net|requestbin\.\w{2,4}|requestcatcher\.com|requestrepo\.com|beeceptor\.com|hookbin\.com|webhook\.cool|interact\.sh|interactsh\.\w{2,6}|oast\.(?:fun|live|me|online|pro|site)|oastify\.com|burpcollaborator\.net|dnslog\.\w{2,4}|ceye\.io|canarytokens\.\w{2,4}|dnsbin\.\w{2,4}|ngrok(?:-free)?\.(?:io|app|dev)|trycloudflare\.com|serveo\.net|loca\.lt|localtunnel\.me|discord(?:app)?\.com\/api\/(?:v\d{1,2}\/)?webhooks\/\d|api\.telegram\.org\/bot\d|hooks\.slack\.com\/services\/T\w{6}|script\.google\.com\/macros\/s\/\w{8})/i;

export const SENDS_DATA =
  /\bcurl(?:\.exe)?\b[^\n]{0,240}?(?:\s-(?:d|F|T)\b|\s-[a-zA-Z]{0,5}[dF]\s|\s-[a-zA-Z]{0,5}T\s|--data|--form\b|--upload-file|--json\b|-X\s?["']?(?:POST|PUT))|\bwget\b[^\n]{0,200}?--(?:post|body)|\b(?:requests|httpx|session|client|axios|https?|ky|got|aiohttp|net|superagent|needle)\.(?:post|put|patch|Post|PostForm)\(|urlopen\([^)\n]{0,160},|\bRequest\([^)\n]{0,200},|\.request\(\s?["'](?:POST|PUT)|\bmethod["']?\s?[:=]\s?["'](?:POST|PUT)\b|sendBeacon\(|new WebSocket\(|websockets?\.(?:connect|create_connection)\(|Invoke-(?:RestMethod|WebRequest)\b[^\n]{0,160}?-(?:Body|InFile|Method)|\b(?:irm|iwr)\b[^\n]{0,160}?-(?:Body|InFile|Method)|Upload(?:String|File|Data)\(|\|\s?(?:nc|ncat|netcat|mail|mutt|sendmail)\s|sendall\(|Net::HTTP\.post|HTTParty\.post|Faraday\.post|CURLOPT_POST|stream_context_create|smtplib\.|HttpClient\(\)\.Post|PostAsync\(|Client::new\(\)\s?\.post\(|\bhttp\.Post/;
export const FETCHES_DATA =
  /\bcurl\b|\bwget\b|\burlopen\b|\burlretrieve\b|\brequests\.get\b|\bhttpx\.get\b|\bfetch\(|\bhttps?\.get\(|\)\.get\(\s?["'\x60]https?:|\baxios\b|URI\.open|Net::HTTP|\birm\b|\biwr\b|Invoke-WebRequest|Invoke-RestMethod|DownloadString|DownloadFile|http\.Get\(|\bLWP\b|reqwest::|file_get_contents\(\s?["']https?:|\bgit clone\b|\baria2c\b|\bbitsadmin\b|\bcertutil\b/;

/** Caches the last result: several signals search the same statement. */
let lastUnknownHost: { text: string; found: MatchSpan | undefined } = { text: "", found: undefined };

/** Finds an address that is not a service, a vendor or local, or one that only collects requests. */
export function findUnknownHost(text: string): MatchSpan | undefined {
  if (lastUnknownHost.text !== text) lastUnknownHost = { text, found: searchUnknownHost(text) };
  return lastUnknownHost.found;
}

function searchUnknownHost(text: string): MatchSpan | undefined {
  const address = findOutsideAddress(text);
  if (address !== undefined && !isVendorAddress(text.slice(text.indexOf(address)).split(/[\s"'`)]/, 1)[0] ?? ""))
    return { index: text.indexOf(address), length: address.length };
  return findFirstMatch(DROP_HOST)(text);
}

/** Finds an executable or archive at an unknown address; with `isOnCodeHost`, one that any user of a code host can publish. */
export function findReleasedFile(text: string, isOnCodeHost: boolean): MatchSpan | undefined {
  const match =
    /https?:\/\/[^\s)`"'>\]]{4,200}?(?:\.(?:zip|exe|dmg|pkg|msi|rar|7z|jar|scr|appimage|bat|ps1|vsix|apk|command|iso|scpt)\b|\/releases\/(?:download|latest)\b)/i.exec(
      text,
    );
  if (!match) return undefined;
  if (isVendorAddress(match[0])) return undefined;
  const isCodeHost = /^https?:\/\/(?:www\.)?(?:github|gitlab)\.com\//i.test(match[0]);
  const isUnknown = findUnknownHost(match[0]) !== undefined || FILE_HOST.test(match[0]);
  return (isOnCodeHost ? isCodeHost : isUnknown) ? { index: match.index, length: match[0].length } : undefined;
}

const NUMERIC_ADDRESS =
  /(?:\b(?:https?|ftp|wss?|tcp):\/\/(?:[\w:]{1,40}@)?|\/dev\/(?:tcp|udp)\/|\b(?:nc|ncat|netcat|telnet)\s(?:-\w{1,6}\s){0,3})((?:\d{1,3}\.){3}\d{1,3})\b/;
export function findNumericHost(text: string): MatchSpan | undefined {
  const match = NUMERIC_ADDRESS.exec(text);
  const host = `${match?.[1] ?? "0"}.`;
  if (
    !match ||
    /^(?:0|10|127|169\.254|192\.168|172\.(?:1[6-9]|2\d|3[01]|4\d)|1\.1\.1|1\.0\.0|8\.8|9\.9\.9)\./.test(host)
  )
    return undefined;
  return { index: match.index, length: match[0].length };
}

/** Code that identifies itself to a server, as an API client does. */
const IDENTIFIES_CLIENT =
  /\bauthorization\b|\bbearer\b|api[-_]?key|x-[\w-]{0,20}(?:key|token)|access[-_]?token|_TOKEN\b|\bauth\s?=|client_secret|--user\b|\s-u\s/i;

const unnamedClientCache = new WeakMap<SourceText, boolean>();

/** Returns true if code of the page names an unknown address, and nothing in it identifies the client. */
export function isUnnamedClient(page: SourceText): boolean {
  const known = unnamedClientCache.get(page);
  if (known !== undefined) return known;
  const is =
    page.lines.some(
      (line, at) => (page.isCode(at) || line.includes("`")) && findUnknownHost(line.slice(0, 1000)) !== undefined,
    ) && !page.lines.some((line) => IDENTIFIES_CLIENT.test(line.slice(0, 1000)));
  unnamedClientCache.set(page, is);
  return is;
}

export const RELEASE_WORDS = splitKeywords(
  ".zip,.exe,.dmg,.pkg,.msi,.rar,.7z,.jar,.scr,.appimage,.bat,.ps1,.vsix,.apk,/releases/,.command,.iso,.scpt",
);
export const SEND_WORDS = splitKeywords(
  "curl,wget,.post,.put(,.patch(,urlopen,request(,method,sendbeacon,websocket,invoke-,irm ,iwr ,upload,nc ,ncat,netcat,sendmail,mutt,| mail,sendall,stream_context,curlopt_post,smtplib",
);
export const NETWORK_WORDS = ["http:", "https:", "ws:", "wss:", "ftp:"];

/** Hosts that serve only the installers of known vendors. */
const VENDOR_HOSTS = new Set(
  "rustwasm.github.io taskfile.dev get.k0s.sh get.symfony.com php.new install.perlbrew.pl cpanmin.us nim-lang.org fvm.app get.lando.dev ddev.com goreleaser.com dokku.com setup.runtipi.io install.yunohost.org get.ispconfig.org software.virtualmin.com pkgx.sh buf.build opam.ocaml.org windsurf.com warp.dev install.sourcegraph.com get.devspace.sh talos.dev gleam.run vlang.io get.pulumi.com carapace.sh get.comfy.org uv.astral.sh r-lib.github.io rig.r-pkg.org aider.chat artifacts.elastic.co binaries.cockroachdb.com cli.moonrepo.dev cli.runpod.net clawd.bot depot.dev developer.fermyon.com dl.typesense.org download.daytona.io download.newrelic.com downloads.mariadb.com dprint.dev elixir-install.org get.dgraph.io get.jetpack.io get.nats.io get.webinstall.dev hf.co inference.sh install.datadoghq.com install.meilisearch.com install.surrealdb.com kind.sigs.k8s.io kiro.dev openclaw.ai packages.redis.io pkg.cloudflare.com pkgs.tailscale.com plandex.ai repos.influxdata.com scala-cli.virtuslab.org sh.edgedb.com sst.dev www.geldata.com ampcode.com antigravity.google app.factory.ai aptos.dev artifacts-cli.infisical.com astral.sh awscli.amazonaws.com bootstrap.pypa.io bun.com bun.sh chocolatey.org cli.doppler.com cli.github.com community.chocolatey.org cursor.com deb.nodesource.com dl.dagger.io dl.k8s.io dot.net download.docker.com elm-lang.org encore.dev fluxcd.io fly.io fnm.vercel.app foundry.paradigm.xyz get-ghcup.haskell.org get.arkade.dev get.docker.com get.haskellstack.org get.helm.sh get.jetify.com get.k3s.io get.modular.com get.pnpm.io get.rke2.io get.scoop.sh get.sdkman.io get.volta.sh install.determinate.systems install.meteor.com install.pi-hole.net install.python-poetry.org istio.io mise.run nixos.org ollama.com opencode.ai packages.cloud.google.com packages.microsoft.com pixi.sh pyenv.run releases.hashicorp.com repo.anaconda.com rpm.nodesource.com run.linkerd.io sdk.cloud.google.com sentry.io sh.rustup.rs starship.rs tailscale.com volta.sh zed.dev aws-amplify.github.io cdn.coollabs.io cdn.teleport.dev cli-assets.heroku.com cli.coderabbit.ai cli.upbound.io clickhouse.com coder.com code-server.dev crystal-lang.org direnv.net dl.cloudsmith.io dokploy.com download.clojure.org download.swift.org get.acme.sh get.casaos.io get.cloudron.io get.garden.io get.k3sup.dev get.netdata.cloud get.okteto.com get.opentofu.org get.pulumi.com get.rvm.io get.trunk.io get.tur.so get.wasmer.io getcomposer.org getmic.ro goteleport.com install.duckdb.org install.julialang.org install.zerotier.com just.systems lambdalabs.com lmstudio.ai micro.mamba.pm mise.jdx.dev moonrepo.dev my-netdata.io neon.tech ohmyposh.dev pdm-project.org pkgs.netbird.io railway.app railway.com rclone.org release.anza.xyz release.solana.com repo.continuum.io risczero.com rtx.pub rye.astral.sh setup.atuin.sh sh.jbang.dev sh.vector.dev sp1.succinct.xyz static.snyk.io temporal.download umbrel.sh wasmtime.dev webi.sh webinstall.dev".split(
    " ",
  ),
);
/** Paths of these vendors on hosts with files of many owners. */
const VENDOR_PLACES = [
  ..."rustwasm leanprover terraform-linters kubescape metalbear-co dokku virtualmin AdguardTeam angristan Nyr trufflesecurity gitleaks coursier derailed wagoodman eza-community BurntSushi tmux-plugins romkatv ahmetb bats-core block charmbracelet dotnet fluent fullstorydev jdx kubernetes-sigs nektos neovim nushell pre-commit sharkdp starship termux zsh-users Homebrew anchore anthropics aquasecurity argoproj asdf-vm astral-sh cli denoland docker fluxcd golangci google hashicorp helm k3d-io kubernetes microsoft nodejs nvm-sh ohmyzsh openai oven-sh pnpm pyenv rapid7 rbenv render-oss vercel ajeetdsouza babashka cargo-bins conda-forge devcontainers getsentry github grafana infracost jesseduffield junegunn noir-lang ocaml prometheus rancher rust-lang supabase tilt-dev unslothai"
    .split(" ")
    .map((owner) => `raw.githubusercontent.com/${owner}/`),
  ...["claude.ai/install", "deno.land/install", "gitlab.com/gitlab-org/"],
];

/** Returns true if all fetched addresses belong to known vendors. */
export function isFromVendor(text: string): boolean {
  const addresses: string[] = text.match(/\bhttps?:\/\/[^\s"'`)|;<>]{1,300}/g) ?? [];
  if (addresses.length > 0) return addresses.every(isVendorAddress);
  const [, bare] =
    /\b(?:irm|iwr|curl|wget)\s{1,3}(?:-\S{1,20}\s{1,3}){0,4}((?:[\w-]{1,60}\.){1,4}[a-z]{2,10}\/\S{0,200})/i.exec(
      text,
    ) ?? [];
  return bare !== undefined && isVendorAddress(`https://${bare}`);
}

export function isVendorAddress(address: string): boolean {
  const [, host = ""] = /^https:\/\/([\w.-]{1,100})(?=[/?#]|$)/.exec(address) ?? [];
  return VENDOR_HOSTS.has(host) || VENDOR_PLACES.some((path) => address.startsWith(`https://${path}`));
}
