import { MARK } from "../corpus/skills.mjs";

/** The model's last answer if all steps succeeded. */
export const DONE = "DONE: all steps were taken";

/** The model's steps in order: the text that the previous result must contain, and the next call. */
const STEPS = [
  { call: () => ({ tool: "list_skills", input: {} }) },
  // A client may truncate a long list: the table shows that, and the model knows the name from its prompt.
  { expects: "accessibility-audit", call: () => ({ tool: "load_skill", input: { skill: "greeter" } }) },
  {
    expects: MARK,
    call: (has) =>
      has("greeter__greet")
        ? { tool: "greeter__greet", input: { name: "Ada" } }
        : { tool: "call_skill_tool", input: { tool: "greeter__greet", input: { name: "Ada" } } },
  },
  { expects: "Hello, Ada" },
];

/**
 * Creates the model's side of one conversation. The request alone determines the next step, so a repeated request gets the same
 * answer.
 */
export function converse() {
  const requests = [];
  const called = [];
  const problems = [];

  function next({ tools, results, body }) {
    const find = (name) => tools.find((tool) => isNamed(tool.name, name));
    // Side requests, such as one for a title.
    if (!find("list_skills") && results.length === 0) return { text: "A greeting" };
    requests.push({ step: results.length, tools, results, body: JSON.stringify(body) });
    const step = STEPS[results.length];
    const last = results.at(-1);
    if (!step) return stop(`it sent ${results.length} results of ${STEPS.length - 1} calls`);
    if (step.expects !== undefined && !last.includes(step.expects))
      return stop(`the result of ${called.at(-1)} has no "${step.expects}": ${last}`);
    if (!step.call) return { text: DONE };
    const { tool, input } = step.call((name) => find(name) !== undefined);
    const found = find(tool);
    if (!found) return stop(`it does not offer ${tool}, but: ${tools.map(({ name }) => name).join(", ")}`);
    if (found.first) return { call: { id: `first_${found.name}`, ...found.first } };
    called[results.length] = found.name;
    return { call: { id: `call_${results.length + 1}`, tool: found, input } };
  }

  function stop(problem) {
    problems.push(problem);
    return { text: `STOPPED: ${problem}` };
  }

  return { next, requests, called, problems };
}

/** True if a client's name for a tool ends with the tool's own name. */
export function isNamed(given, own) {
  return given === own || (given.endsWith(own) && /[^a-zA-Z0-9]/.test(given.at(-own.length - 1)));
}
