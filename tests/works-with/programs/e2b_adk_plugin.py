import asyncio

from e2b_adk import E2BPlugin


async def main():
    plugin = E2BPlugin()
    tools = {tool.name: tool for tool in plugin.get_tools()}

    async def call(name, **arguments):
        answer = await tools[name].run_async(args=arguments, tool_context=None)
        assert answer["success"], answer
        return answer

    try:
        answer = await call("run_code", code="x = 6\nprint('text')\nx * 7")
        assert (answer["stdout"], answer["text"]) == ("text\n", "42"), answer
        assert (await call("run_code", code="x"))["text"] == "6"
        answer = await call("run_command", command="pwd; exit 3")
        assert (answer["stdout"], answer["exit_code"]) == ("/home/user\n", 3), answer
        await call("write_file", path="a.txt", content="content")
        assert (await call("read_file", path="a.txt"))["content"] == "content"
        assert {"name": "a.txt", "type": "file"} in (await call("list_files", path="."))["entries"]
        assert (await call("start_background_command", command="sleep 30"))["pid"]
    finally:
        await plugin.close()


asyncio.run(main())
