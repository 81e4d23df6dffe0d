// Anthropic's SDK for Node, set up by its variables alone. Prints what it got as JSON.
import fs from "node:fs";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ maxRetries: 0 });
const ask = { model: "scripted", max_tokens: 100, temperature: 0 };
const question = (content) => [{ role: "user", content }];
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [
  { name: "get_weather", description: "The weather in a city", input_schema: schema },
  { name: "get_time", description: "The time in a city", input_schema: schema },
];

async function afterCall(send) {
  const messages = question("What is the weather in Paris?");
  const calling = await send({ ...ask, messages, tools });
  const call = calling.content.find((block) => block.type === "tool_use");
  fs.writeFileSync(`${call.input.city}.txt`, "21 degrees, clear");
  const result = { type: "tool_result", tool_use_id: call.id, content: "21 degrees, clear" };
  messages.push({ role: "assistant", content: calling.content });
  messages.push({ role: "user", content: [result] });
  const answer = await send({ ...ask, messages, tools });
  return answer.content[0].text;
}

const models = [];
for await (const model of client.models.list()) models.push(model.id);
const messages = question("What is the capital of France?");
const whole = await client.messages.create({ ...ask, messages });
const streamed = await client.messages.stream({ ...ask, messages }).finalText();

console.log(
  JSON.stringify({
    models,
    texts: [whole.content[0].text, streamed],
    afterCalls: [
      await afterCall((body) => client.messages.create(body)),
      await afterCall((body) => client.messages.stream(body).finalMessage()),
    ],
  }),
);
