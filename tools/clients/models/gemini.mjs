/** The protocol of Gemini's generateContent. */
export const gemini = {
  isAsked: (path) => /:(streamGenerateContent|generateContent)$/.test(path),
  aside: (path) => (path.endsWith(":countTokens") ? { totalTokens: 1 } : {}),
  read: ({ tools = [], contents }, path) => ({
    isStream: path.endsWith(":streamGenerateContent"),
    tools: tools.flatMap(({ functionDeclarations = [] }) => functionDeclarations).map(({ name }) => ({ name })),
    results: contents
      .flatMap(({ parts = [] }) => parts)
      .flatMap(({ functionResponse }) => (functionResponse ? [written(functionResponse.response)] : [])),
  }),
  answer: ({ text, call }) => ({
    candidates: [
      {
        index: 0,
        content: {
          role: "model",
          parts: [call ? { functionCall: { name: call.tool.name, args: call.input } } : { text }],
        },
        finishReason: "STOP",
      },
    ],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
    modelVersion: "gemini-2.5-flash",
    responseId: "response_1",
  }),
  stream: (answer) => [`data: ${JSON.stringify(gemini.answer(answer))}`],
};

/** Returns the unchanged texts of a response, which is an object. */
const written = (value) =>
  typeof value === "object" && value !== null ? Object.values(value).map(written).join("\n") : String(value);
