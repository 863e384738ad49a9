"""Sessions as objects, without an event loop: go back, continue in a copy, read what was said."""

from tempfile import TemporaryDirectory

from nacre import BlockingAgent, UsageLimits

with TemporaryDirectory() as folder, BlockingAgent.open(state_dir=folder) as agent:
    agent.ask("Remember that my boat is called Halcyon.", limits=UsageLimits(model_calls=10, cost_usd=0.5))
    session = agent.sessions.get("main")
    session.label("begun")
    session.ask("Remember that my boat is blue.")

    copy = session.fork("begun", key="dm:another-boat")
    copy.ask("Remember that my boat is green.")
    session.rewind(session.turns()[0], note="The colour is not decided.")

    for each in (session, copy):
        print(each.key, [message.text for message in each.history() if message.speaker == "person"])
    print(session.usage().cost_usd, [info.key for info in agent.sessions.list()])
