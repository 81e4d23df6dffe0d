"""Several questions at once; the server answers them together.

pip install openai; python async_chat.py
"""

import asyncio

from openai import AsyncOpenAI

QUESTIONS = ("What is the capital of France?", "Count to 10.", "What is the largest planet?")


async def ask(client: AsyncOpenAI, model: str, question: str) -> None:
    answer = await client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": question}],
        max_tokens=50,
        temperature=0,
    )
    print(f"{question}\n{answer.choices[0].message.content}\n")


async def main() -> None:
    async with AsyncOpenAI(base_url="http://127.0.0.1:11434/v1", api_key="none") as client:
        model = (await client.models.list()).data[0].id  # or a name from `maxi-mlx list`
        await asyncio.gather(*(ask(client, model, question) for question in QUESTIONS))


asyncio.run(main())
