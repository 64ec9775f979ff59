import type { EvaluationSkill } from "./skills.ts";

/**
 * Skills that a large catalog has in addition to the requested ones: the same ones every time, named and described as published ones
 * are, with words that tasks have too. A product that they are about is not one of the evaluation skills.
 */
export function makeDistractors(count: number): Omit<EvaluationSkill, "requests">[] {
  const names = new Set<string>();
  return Array.from({ length: count }, (_, number) => {
    const pick = picker(number + 1);
    const [product, action, object] = [pick(PRODUCTS), pick(ACTIONS), pick(OBJECTS)];
    const plain =
      [`${product}-${object}`, `${product}-${action}`, `${action}-${product}-${object}`][number % 3] ?? product;
    const name = slug(names.has(plain) ? `${plain}-${pick(SUFFIXES)}-${number}` : plain);
    names.add(plain);
    const cue = pick(CUES)({ product, object, action });
    const description = `${capital(action)} ${product} ${object} ${pick(MANNERS)}. ${cue}`;
    const body = Array.from({ length: 8 }, () =>
      pick(SENTENCES)({ product: pick(PRODUCTS), object: pick(OBJECTS), action: pick(ACTIONS) }),
    );
    return { name, description, body: [description, ...body].join(" ") };
  });
}

interface Parts {
  product: string;
  object: string;
  action: string;
}

const list = (text: string) => text.trim().split(/\s*,\s*/);
const PRODUCTS =
  list(`salesforce, hubspot, zendesk, jira, confluence, notion, airtable, asana, trello, slack, discord, teams,
  stripe, paypal, shopify, woocommerce, magento, quickbooks, xero, datev, sap, netsuite, workday, bamboohr, greenhouse, figma,
  sketch, canva, webflow, wordpress, drupal, contentful, sanity, strapi, netlify, vercel, cloudflare, fastly, heroku, fly, railway,
  supabase, firebase, mongodb, redis, cassandra, elasticsearch, opensearch, clickhouse, snowflake, bigquery, databricks, airflow,
  dagster, dbt, kafka, rabbitmq, nats, pulsar, temporal, camunda, n8n, zapier, twilio, sendgrid, mailchimp, intercom, segment,
  amplitude, mixpanel, posthog, datadog, grafana, prometheus, sentry, newrelic, splunk, pagerduty, opsgenie, jenkins, gitlab,
  bitbucket, circleci, buildkite, argocd, helm, istio, envoy, consul, vault, nomad, ansible, puppet, chef, packer, pulumi, vagrant,
  proxmox, vmware, openstack, nginx, haproxy, traefik, caddy, apache, tomcat, spring, django, flask, fastapi, rails, laravel,
  symfony, express, nestjs, nextjs, nuxt, svelte, angular, ember, solid, remix, astro, gatsby, electron, tauri, flutter, ionic,
  android, swiftui, unity, unreal, godot, blender, autocad, solidworks, arduino, raspberry, esp32, ros, opencv, tensorflow, keras,
  jax, huggingface, langchain, llamaindex, pinecone, weaviate, qdrant, milvus, neo4j, graphql, grpc, soap, webrtc, oauth, keycloak,
  okta, ldap, matlab, julia, stata, spss, tableau, powerbi, looker, metabase, superset, zotero, obsidian, roam, evernote, todoist,
  gmail, outlook, dropbox, sharepoint, nextcloud, minio, restic, borg, zfs, ceph, wireguard, tailscale, pfsense, wireshark, nmap`);
const ACTIONS =
  list(`manage, configure, automate, monitor, migrate, deploy, query, sync, audit, optimize, test, document, debug,
  backup, import, export, analyze, design, review, generate, schedule, validate, secure, scale, integrate`);
const OBJECTS =
  list(`records, tickets, pages, workflows, pipelines, dashboards, alerts, users, permissions, webhooks, payments,
  orders, inventory, contacts, campaigns, reports, templates, components, themes, plugins, clusters, queues, topics, schemas,
  indexes, backups, caches, sessions, tokens, certificates, routes, endpoints, forms, documents, assets, images, videos, events,
  logs, metrics, traces, incidents, releases, branches, tests, environments, containers, functions, jobs, models, datasets,
  experiments, embeddings, prompts, agents, budgets, subscriptions, licenses, devices, sensors`);
const SUFFIXES = list("pro, helper, expert, kit, tools, guide, ops, plus, agent, suite");
const MANNERS =
  list(`with the official API, from the command line, following best practices, at scale, step by step, with safe
  defaults, for teams, across environments, without downtime, with tests, using the CLI`);
const CUES: readonly ((parts: Parts) => string)[] = [
  ({ product, object }) => `Use when the user mentions ${product} or asks about ${object}.`,
  ({ product, action }) => `Use this skill to ${action} anything in ${product}.`,
  ({ object, product }) => `Use when ${object} in ${product} are slow, missing or wrong.`,
  ({ product }) => `Triggers on ${product} projects, errors and questions.`,
  ({ object, action }) => `Helps to ${action} ${object} and explains the result. Use when working with ${object}.`,
];
const SENTENCES: readonly ((parts: Parts) => string)[] = [
  ({ object }) => `List the ${object} first and ask before you change any of them.`,
  ({ product }) => `The credentials of ${product} come from the environment and are never printed.`,
  ({ action, object }) => `To ${action} the ${object}, write a plan, run it on a copy, then compare the result.`,
  ({ product, object }) =>
    `${capital(product)} limits requests, so page through ${object} and wait when it answers 429.`,
  ({ object }) => `When ${object} are missing, check the date range, the time zone and the permissions of the user.`,
  ({ action }) => `Write a short summary for the team: what you did to ${action} it, what failed, what is left to do.`,
  ({ object, product }) => `Export the ${object} of ${product} as CSV or JSON and validate each row before the import.`,
  ({ product }) =>
    `Read the changelog of ${product} before an upgrade; a breaking change needs a migration and a way back.`,
  ({ object }) => `Add tests for the edge cases of ${object}: empty, duplicated, too long, wrong encoding.`,
  ({ action, product }) =>
    `Schedule the script that has to ${action} ${product} every night and send an email when it fails.`,
];

function slug(text: string): string {
  return text.toLowerCase().replace(/[^a-z\d]+/g, "-");
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A linear congruential generator: the same picks for the same seed. */
function picker(seed: number): <T>(items: readonly T[]) => T {
  let state = Math.imul(seed, 2654435761) >>> 0;
  return (items) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return items[Math.floor((state / 2 ** 32) * items.length)] as (typeof items)[number];
  };
}
