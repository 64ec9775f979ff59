import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, onTestFinished } from "vitest";

export interface Got {
  name: string;
  kind: number;
  traceId: string;
  spanId: string;
  parentSpanId: string | undefined;
  start: bigint;
  end: bigint;
  isFailed: boolean;
  attributes: Record<string, string | number | boolean>;
  events: readonly string[];
}

export interface Collector {
  /** For OTEL_EXPORTER_OTLP_ENDPOINT. */
  url: string;
  /** As they came. */
  requests: { path: string; headers: IncomingHttpHeaders; body: string }[];
  /** What was sent, read as strictly as OTLP is written. */
  spans(): Got[];
  resource(): Record<string, unknown>;
}

/** A collector of OpenTelemetry on the loopback interface; one that hangs takes what comes and never answers. */
export async function startCollector({ status = 200, hangs = false } = {}): Promise<Collector> {
  const requests: Collector["requests"] = [];
  const server = createServer(async (request, response) => {
    requests.push({ path: request.url ?? "", headers: request.headers, body: await text(request) });
    if (hangs) return;
    response.writeHead(status, { "content-type": "application/json" }).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const bodies = () => requests.map(({ body }) => JSON.parse(body));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    spans: () => checked(bodies().flatMap(spansIn)),
    resource: () => read(bodies()[0]?.resourceSpans[0].resource.attributes),
  };
}

// biome-ignore lint/suspicious/noExplicitAny: what came is looked at here.
type Json = any;

function spansIn(body: Json): Got[] {
  expect(Object.keys(body)).toEqual(["resourceSpans"]);
  return body.resourceSpans.flatMap((resource: Json) => {
    expect(Object.keys(resource).sort()).toEqual(["resource", "scopeSpans"]);
    return resource.scopeSpans.flatMap(({ scope, spans, ...more }: Json) => {
      expect(more).toEqual({});
      expect(scope).toEqual({ name: "skillet", version: expect.stringMatching(/^\d+\.\d+\.\d+/) });
      expect(spans.length).toBeLessThanOrEqual(512);
      return spans.map(spanOf);
    });
  });
}

function spanOf(span: Json): Got {
  const { traceId, spanId, parentSpanId, name, kind, startTimeUnixNano, endTimeUnixNano, ...rest } = span;
  const { attributes, events, status, ...more } = rest;
  expect(more, "keys that OTLP does not define").toEqual({});
  expect(traceId).toMatch(/^(?!0+$)[0-9a-f]{32}$/);
  for (const id of [spanId, parentSpanId ?? spanId]) expect(id).toMatch(/^(?!0+$)[0-9a-f]{16}$/);
  expect(name.length).toBeGreaterThan(0);
  expect([1, 3]).toContain(kind);
  for (const time of [startTimeUnixNano, endTimeUnixNano]) {
    expect(time, "nanoseconds, as text").toMatch(/^1[789]\d{17}$/);
  }
  expect([{}, { code: 2 }]).toContainEqual(status);
  for (const event of events) {
    expect(Object.keys(event).sort()).toEqual(["attributes", "name", "timeUnixNano"]);
    expect(event.timeUnixNano).toMatch(/^1[789]\d{17}$/);
    read(event.attributes);
  }
  return {
    ...{ traceId, spanId, parentSpanId, name, kind },
    start: BigInt(startTimeUnixNano),
    end: BigInt(endTimeUnixNano),
    isFailed: status.code === 2,
    attributes: read(attributes),
    events: events.map((event: Json) => event.name),
  };
}

const READ: Record<string, (value: Json) => string | number | boolean> = {
  stringValue: (value) => {
    expect(typeof value).toBe("string");
    return value;
  },
  intValue: (value) => {
    expect(value, "a whole number, as text").toMatch(/^-?\d+$/);
    return Number(value);
  },
  doubleValue: (value) => {
    expect(typeof value).toBe("number");
    return value;
  },
  boolValue: (value) => {
    expect(typeof value).toBe("boolean");
    return value;
  },
};

function read(attributes: Json): Record<string, string | number | boolean> {
  const pairs = attributes.map(({ key, value, ...more }: Json) => {
    expect(more).toEqual({});
    const [[type = "", given] = [], ...others] = Object.entries(value);
    expect(others).toEqual([]);
    expect(Object.keys(READ)).toContain(type);
    return [key, READ[type]?.(given)];
  });
  expect(new Set(pairs.map(([key]: string[]) => key)).size, "each attribute once").toBe(pairs.length);
  return Object.fromEntries(pairs);
}

function checked(spans: Got[]): Got[] {
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  expect(byId.size, "each span once").toBe(spans.length);
  for (const span of spans) {
    expect(span.end >= span.start, `${span.name} ends after it starts`).toBe(true);
    const parent = byId.get(span.parentSpanId ?? "");
    if (!parent) continue;
    expect(span.traceId).toBe(parent.traceId);
    expect(span.start >= parent.start && span.end <= parent.end, `${span.name} is within ${parent.name}`).toBe(true);
  }
  return spans;
}
