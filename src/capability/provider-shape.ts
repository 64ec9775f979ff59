import type { CapabilityDescription, OperationDescription, ProviderDescription } from "../host/capabilities.ts";
import { unusableSchema } from "../host/schema.ts";
import { inLine } from "../shared/prompt.ts";
import { isData } from "../skill/data.ts";
import { LONGEST_LINE, MOST_CAPABILITIES, MOST_OPERATIONS } from "./envelope-methods.ts";

/** What a namespace can be called: `notes`. */
export const NAMESPACE: RegExp = /^[a-z][a-z0-9_-]{0,63}$/;
const CAPABILITY = /^(?=.{1,128}$)[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)+$/;
const OPERATION = /^[A-Za-z0-9][\w-]{0,63}$/;

export interface ShapeProblem {
  problem: string;
  fix: string;
}

/** A description as everybody is given it: texts on one line each, and no longer than is good for a model. */
export function boundedDescription({ capabilities, ...rest }: ProviderDescription): ProviderDescription {
  return {
    ...rest,
    capabilities: capabilities.map((capability) => ({
      ...capability,
      description: inLine(capability.description, LONGEST_LINE),
      operations: capability.operations.map((operation) => ({
        ...operation,
        description: inLine(operation.description, LONGEST_LINE),
      })),
    })),
  };
}

/** What is wrong with a description, first of all its names; nothing when it can be used. The rule for every provider. */
export async function descriptionProblem(
  namespace: string,
  description: ProviderDescription,
): Promise<ShapeProblem | undefined> {
  return shapeProblem(namespace, description) ?? (await unusableIn(description));
}

/** As descriptionProblem, without a look into the schemas, which takes its time. */
export function shapeProblem(namespace: string, { capabilities }: ProviderDescription): ShapeProblem | undefined {
  if (!NAMESPACE.test(namespace)) {
    return {
      problem: "its namespace is none",
      fix: "use up to 64 small letters, digits, `-` and `_`, and begin with a letter",
    };
  }
  const first = firstProblem(capabilities, MOST_CAPABILITIES, "capabilities", (capability, place) =>
    capabilityProblem(namespace, capability, place),
  );
  return (
    first ??
    twice(
      capabilities.map(({ id }) => id),
      "capability",
    )
  );
}

function capabilityProblem(namespace: string, capability: CapabilityDescription, place: string) {
  const { id, description, operations } = capability;
  if (typeof id !== "string" || !CAPABILITY.test(id) || !id.startsWith(`${namespace}.`)) {
    return {
      problem: `the id of ${place} is none of ${namespace}`,
      fix: `begin it with \`${namespace}.\`, and go on with small letters, digits, \`-\` and \`_\``,
    };
  }
  if (isEmpty(description)) return { problem: `${id} has no description`, fix: "say in a sentence what it is" };
  if (operations.length === 0) return { problem: `${id} has no operations`, fix: "give it at least one" };
  const first = firstProblem(operations, MOST_OPERATIONS, `operations of ${id}`, (operation, where) =>
    operationProblem(id, operation, where),
  );
  return (
    first ??
    twice(
      operations.map(({ name }) => name),
      `operation of ${id}`,
    )
  );
}

function operationProblem(id: string, operation: OperationDescription, place: string): ShapeProblem | undefined {
  const { name, description, mutating, inputSchema } = operation;
  if (typeof name !== "string" || !OPERATION.test(name)) {
    return {
      problem: `the name of ${place} is none`,
      fix: "use up to 64 letters, digits, `-` and `_`, and begin with a letter or digit",
    };
  }
  if (isEmpty(description)) {
    return { problem: `${id} ${name} has no description`, fix: "say in a sentence what it does" };
  }
  if (typeof mutating !== "boolean") {
    return { problem: `${id} ${name} does not say whether it changes something`, fix: "say it: mutating" };
  }
  if (!isData(inputSchema) || inputSchema["type"] !== "object") {
    return { problem: `the input of ${id} ${name} is no object`, fix: 'wrap it: { "type": "object", … }' };
  }
  return undefined;
}

async function unusableIn({ capabilities }: ProviderDescription): Promise<ShapeProblem | undefined> {
  for (const { id, operations } of capabilities) {
    for (const { name, inputSchema, outputSchema } of operations) {
      for (const [which, schema] of Object.entries({ input: inputSchema, output: outputSchema })) {
        const why = schema && (await unusableSchema(schema));
        if (why) {
          return {
            problem: `the ${which} schema of ${id} ${name} cannot be used: ${why}`,
            fix: "mend it: it is JSON Schema (2020-12), and nothing in it leads outside",
          };
        }
      }
    }
  }
  return undefined;
}

function isEmpty(description: unknown): boolean {
  return typeof description !== "string" || description.trim() === "";
}

function firstProblem<Item>(
  items: readonly Item[],
  most: number,
  what: string,
  problemOf: (item: Item, place: string) => ShapeProblem | undefined,
): ShapeProblem | undefined {
  if (items.length > most) return { problem: `there are more than ${most} ${what}`, fix: "divide them" };
  for (const [index, item] of items.entries()) {
    const problem = problemOf(item, `number ${index + 1} of the ${what}`);
    if (problem) return problem;
  }
  return undefined;
}

function twice(names: readonly string[], what: string): ShapeProblem | undefined {
  const again = names.find((name, index) => names.indexOf(name) !== index);
  return again === undefined
    ? undefined
    : { problem: `there is more than one ${what} \`${again}\``, fix: "call each by another name" };
}
