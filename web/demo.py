def describe(): return {}
async def call(name, args): return None
