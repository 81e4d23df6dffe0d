// A streamed chat with the official SDK for Node: npm install openai, then node openai_sdk.mjs
import OpenAI from "openai";

const client = new OpenAI({ baseURL: "http://127.0.0.1:11434/v1", apiKey: "none" });
const stream = await client.chat.completions.create({
  model: "SmolLM2-135M-Instruct", // or another name from `maxi-mlx list`
  messages: [{ role: "user", content: "What is the capital of France?" }],
  max_tokens: 50,
  temperature: 0,
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0].delta.content ?? "");
process.stdout.write("\n");
