"""An agent loop for verl that says what the data set tells it to: no inference server."""

from __future__ import annotations

from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput


class SpokenLoop(AgentLoopBase):
    """Session i of a prompt says ``extra_info["says"][i]``."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        says = kwargs["extra_info"]["says"][kwargs["session_id"]]
        prompt = self.tokenizer.apply_chat_template(kwargs["raw_prompt"], tokenize=False)
        response = self.tokenizer.convert_tokens_to_ids([says, self.tokenizer.eos_token])
        return AgentLoopOutput(
            prompt_ids=self.tokenizer(prompt).input_ids,
            response_ids=response,
            response_mask=[1] * len(response),
            num_turns=2,
            metrics=AgentLoopMetrics(),
        )
