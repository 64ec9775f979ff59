import type { Page } from "../page.ts";

/** Services that many skills use. An address there says nothing about who receives the data. */
const SERVICES = new Set(
  "airtable.com algolia.com algolia.net alchemy.com amazonaws.com anthropic.com apify.com apple.com arxiv.org asana.com assemblyai.com atlassian.com atlassian.net azure.com azurewebsites.net bitbucket.org box.com brave.com browserbase.com calendly.com canva.com census.gov claude.ai clerk.com clickup.com cloudflare.com cohere.ai cohere.com coinbase.com coingecko.com confluent.cloud convex.cloud convex.dev crossref.org databricks.com datadoghq.com deepgram.com deepseek.com digitalocean.com discord.com docker.com docker.io docusign.net dropboxapi.com dropbox.com ebi.ac.uk elevenlabs.io etherscan.io europa.eu exa.ai facebook.com fal.ai fal.run figma.com firebaseio.com firecrawl.dev fly.dev fly.io frontapp.com gemini.google.com github.com githubusercontent.com gitlab.com google-analytics.com google.com googleapis.com grafana.net groq.com heroku.com herokuapp.com hetzner.cloud honeycomb.io hubapi.com hubspot.com huggingface.co infura.io instagram.com intercom.io ipinfo.io jina.ai klaviyo.com launchdarkly.com lemonsqueezy.com linear.app linkedin.com live.com loops.so mailchimp.com mailgun.net mapbox.com meta.com microsoft.com microsoftonline.com minimax.io mistral.ai mixpanel.com modal.run monday.com mongodb.com mozilla.org n8n.cloud nasa.gov neon.tech netlify.com newrelic.com ngc.nvidia.com nih.gov notion.com notion.so npmjs.com npmjs.org nvidia.com office.com office365.com okta.com openai.com openalex.org openrouter.ai openstreetmap.org opsgenie.com outlook.com pagerduty.com paypal.com perplexity.ai pinecone.io plaid.com planetscale.com plausible.io posthog.com postmarkapp.com pushover.net pypi.org qdrant.io railway.app reddit.com render.com replicate.com resend.com runpod.io salesforce.com semanticscholar.org sendgrid.com sentry.io serpapi.com serper.dev shopify.com slack.com snowflakecomputing.com sonarcloud.io spotify.com square.com stability.ai stripe.com supabase.co supabase.com tavily.com telegram.org tiktok.com together.ai together.xyz trello.com twilio.com twitch.tv twitter.com typeform.com uniprot.org unpkg.com upstash.io uspto.gov vercel.app vercel.com vimeo.com voyageai.com weaviate.io wikidata.org wikimedia.org wikipedia.org wolframalpha.com wordpress.com x.ai x.com youtube.com zapier.com zendesk.com zoho.com zoom.us".split(
    " ",
  ),
);
/** Placeholders (RFC 2606), and what stays on the machine or in its network. */
const LOCAL =
  /^(?:localhost|host\.docker\.internal|(?:[\w-]{1,63}\.){0,5}(?:example\.(?:com|org|net)|localhost|local|internal|lan|svc)|0\.0\.0\.0|127\.[\d.]+|10\.[\d.]+|192\.168\.[\d.]+|172\.(?:1[6-9]|2\d|3[01])\.[\d.]+|169\.254\.[\d.]+|1\.1\.1\.1|1\.0\.0\.1|8\.8\.(?:8\.8|4\.4)|9\.9\.9\.9)$|^(?:my|the)[-_.]|^your|^my(?:company|corp|domain|app|site|server|host|org|project|blog|shop|store|website|api|team|service)\b|^x{2,}/i;
const ADDRESS =
  /\b(?:https?|wss?|ftp):\/\/(?:[\w.-]{0,60}(?::[^\s@/"'`]{0,60})?@)?([\w.-]{1,100})(?=[:/?#\s"'`)\\,;>\]}]|$)/gi;

/** A host that is written out, and is no placeholder, no local one and none of a known service. */
export function isOutside(host: string): boolean {
  const name = host.toLowerCase().replace(/\.+$/, "");
  if (!name.includes(".") || LOCAL.test(name)) return false;
  const parts = name.split(".");
  return ![2, 3].some((count) => SERVICES.has(parts.slice(-count).join(".")));
}

/** Returns the first address in the text whose host is outside. */
export function findOutside(text: string): string | undefined {
  for (const [address, host = ""] of text.matchAll(ADDRESS)) if (isOutside(host)) return address;
  return undefined;
}

const pages = new WeakMap<Page, boolean>();

/** Whether code of the page names an outside address. */
export function namesOutside(page: Page): boolean {
  const known = pages.get(page);
  if (known !== undefined) return known;
  const is = page.lines.some((line, at) => page.isCode(at) && findOutside(line.slice(0, 1000)) !== undefined);
  pages.set(page, is);
  return is;
}
