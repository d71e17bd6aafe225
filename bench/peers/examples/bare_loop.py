"""Our reader in a loop of one's own. SCRIPTED: no model is asked.

parsers/README.md quotes what stands between the two marks.
"""

# [quoted from here]
from parsers import correction, parse_react


def solve(ask, history, tools, functions, steps=8):
    for _ in range(steps):
        text = ask(history)  # your model: messages in, text out
        reading = parse_react(text, tools)
        if reading.final is not None:
            return reading.final
        results = [functions[call.name](**call.arguments) for call in reading.good_calls]
        told = "\n".join(f"Observation: {result}" for result in results) or correction(reading)
        history = [*history, _said("assistant", text), _said("user", told)]
    return None


def _said(role, content):
    return {"role": role, "content": content}


# [to here]

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two whole numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}
REPLIES = [
    "Thought: I add.\nAction: sum_up\nAction Input: {}",
    "Thought: I add.\nAction: add\nAction Input: ```json\n{'a': 2, 'b': 3,}\n```\nObservation: 6",
    "Final Answer: It is 5.",
]


def main():
    replies, made = iter(REPLIES), []

    def add(a, b):
        made.append((a, b))
        return a + b

    question = [_said("user", "What is 2 + 3?")]
    answer = solve(lambda _: next(replies), question, [ADD], {"add": add})
    assert (answer, made) == ("It is 5.", [(2, 3)]), (answer, made)


if __name__ == "__main__":
    main()
    print("bare loop: the call was read and the answer given")
