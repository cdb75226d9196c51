-- Single-row updates of 64 bytes by key: the update test by which NDB was measured in 2010.
require("oltp_common")

local text = string.rep("#", 64)

function prepare_statements()
   prepare_for_each_table("point_selects")
   stmt_update = {}
   param_update = {}
   for t = 1, sysbench.opt.tables do
      stmt_update[t] = con:prepare(string.format("UPDATE sbtest%u SET c=? WHERE id=?", t))
      param_update[t] = { stmt_update[t]:bind_create(sysbench.sql.type.CHAR, 64), stmt_update[t]:bind_create(sysbench.sql.type.INT) }
      stmt_update[t]:bind_param(unpack(param_update[t]))
   end
end

function event()
   local t = sysbench.rand.uniform(1, sysbench.opt.tables)
   param_update[t][1]:set_rand_str(text)
   param_update[t][2]:set(sysbench.rand.default(1, sysbench.opt.table_size))
   stmt_update[t]:execute()
end
