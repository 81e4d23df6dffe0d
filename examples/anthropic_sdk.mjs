// A streamed message with the official SDK for Node: npm install @anthropic-ai/sdk, then
// node anthropic_sdk.mjs
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: "http://127.0.0.1:11434", apiKey: "none" });
const stream = client.messages.stream({
  model: "SmolLM2-135M-Instruct", // or another name from `maxi-mlx list`
  messages: [{ role: "user", content: "What is the capital of France?" }],
  max_tokens: 50,
  temperature: 0,
});
stream.on("text", (text) => process.stdout.write(text));
await stream.finalMessage();
process.stdout.write("\n");
